"""One exact map over samples: in this process, in warm worker processes, on the workers of a cluster.

A job says what runs on a part of the samples. The results merge to the same bits, whoever computed which part.

The map:

sample_map: one primitive: a job on parts of the samples, in this process and on the workers of a run
sample_job: `SampleJob`: what runs on samples
accumulating_map: a job that adds up: each process sends the sum of its parts at the end
sample_parts: parts of samples: consecutive ones or shards, by their place or by value
waiting_part: a part that runs, or is to run
sharing_gain: whether other processes take samples of a stage, and how many at once
run_on_threads: parts that threads of this process run, while the processes that would take them wait

Who runs parts:

run_part: what another process does with a part
job_content: a job as bytes for another process
pool: what a pool of workers is
worker_pool: the processes of a run, warm over all its stages
idle_workers: the processes of a run, while this process has other work
cluster_pool: the workers of a cluster, for one run
cluster_adapters: what a kind of cluster is, and any executor as one
dask_adapter: a scheduler of Dask
ray_adapter: a head of Ray
await_worker: waiting for a cluster that has no workers at the moment
interrupts: Ctrl-C and worker processes
start_workers: workers of a verb, which end with it
"""
