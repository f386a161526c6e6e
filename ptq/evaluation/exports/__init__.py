"""A report in other formats: Markdown, HTML, flat metrics, pandas.

summary       the short report as texts
markdown      the short report as Markdown
html_summary  the short report as an HTML fragment for notebooks
flat_metrics  figures by flat names, for experiment trackers
mlflow_run    a result in MLflow
report        `Report`: the figures, and all of these

Further files:

frontier_svg  a frontier as an SVG picture: SQNR over speed, with the chosen point
"""
