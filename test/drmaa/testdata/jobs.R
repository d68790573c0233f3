# Runs jobs through r.c. Argument: the path of its library.
library(parallel)
dyn.load(commandArgs(TRUE)[1])

expect <- function(what, got, want) {
  if (!identical(got, want)) stop(what, " is ", got, ", expected ", want)
}
call <- function(name, ..., want = 0L) {
  r <- .C(name, ..., code = -1L)
  expect(paste("the code of", name), r$code, want)
  invisible(r)
}
run <- function(script, tasks = 0L, want = 0L) {
  invisible(call("r_run", script, as.integer(tasks), ids = character(max(1, tasks)), want = want)$ids)
}
ended <- function(id) {
  r <- call("r_wait", id, signaled = 0L, status = 0L)
  c(r$signaled, r$status)
}

run("exit 0", want = 5L) # DRMAA_ERRNO_NO_ACTIVE_SESSION
call("r_init")
expect("a good job", ended(run("exit 0")), c(0L, 0L))
expect("a job that fails", ended(run("exit 3")), c(0L, 3L))

killed <- run("echo > runs.R; exec sleep 1000") # DRMAA_PS_RUNNING also means that it is about to start
while (!file.exists("runs.R")) Sys.sleep(0.05)
expect("its state", call("r_job_ps", killed, state = 0L)$state, 32L) # DRMAA_PS_RUNNING
call("r_terminate", killed)
expect("a deleted job", ended(killed), c(1L, -1L))

tasks <- run("exit $((SGE_TASK_ID - 1))", 3)
expect("tasks", length(unique(tasks)), 3L)
for (i in 1:3) expect("a task", ended(tasks[i]), c(0L, i - 1L))

# R handles SIGCHLD itself: children of its own, and calls in a child.
job <- run("sleep 1; exit 4")
child <- mcparallel({
  run("exit 0", want = 5L)
  call("r_init")
  status <- ended(run("exit 6"))
  call("r_exit")
  status
})
expect("a shell of R", system("exit 5"), 5L)
expect("a job of a child", unname(mccollect(child))[[1]], c(0L, 6L))
expect("the job of the parent", ended(job), c(0L, 4L))

many <- sapply(1:200, function(i) run(paste("until test -e go; do sleep 0.1; done; exit", i %% 3)))
cat("submitted\n")
flush(stdout())
for (i in 1:200) expect("one of many", ended(many[i]), c(0L, as.integer(i %% 3)))
call("r_exit")
