# Runs in the guest (run-peerlab sources its lib.sh first): brings up Soft-RoCE, then runs whatever
# appears in $JOBS as NAME.job, all at once. NAME.out is what it printed, NAME.rc its exit status.
JOBS=/share/jobs
ip addr add 10.77.0.2/24 dev eth0; ip link set eth0 up; sleep 1
rdma_add rxe0 eth0 rxe || { echo "no rxe" >$JOBS/failed; exit 1; }
gid4 rxe0 >$JOBS/gid; touch $JOBS/ready
# Sleeps without a process, which an emulated CPU is slow to start.
mkfifo /tmp/never; exec 9<>/tmp/never
nap() { read -rt 0.05 -u 9; }
# listening PORT: a TCP socket listens on it
listening() {
  local wanted line; printf -v wanted ':%04X ' "$1"
  while read -r line; do
    [[ $line == *"$wanted"*:0000\ 0A\ * ]] && return 0
  done < <(cat /proc/net/tcp /proc/net/tcp6)
  return 1
}
# counters: Soft-RoCE's, as NAME:VALUE. No process is started for it: each case asks twice.
counters() {
  local file value
  for file in /sys/class/infiniband/rxe0/ports/1/hw_counters/*; do
    read -r value <"$file" && echo "${file##*/}:$value"
  done
}
# run_job FILE. Its first line is "# counters", or "# listen PORT", a port that tells when it is
# ready, or just "# listen".
run_job() {
  local name=${1%.running} port pid
  read -r port <"$1"
  [ "$port" = "# counters" ] && { counters >"$name.out"; echo "$? end" >"$name.rc"; return; }
  port=${port#"# listen"} port=${port# }
  LD_PRELOAD="$PRE $(echo /share/libpatient.s[o])" bash "$1" >"$name.out" 2>&1 & pid=$!
  if [ -n "$port" ]; then
    while kill -0 $pid 2>/dev/null && ! listening "$port"; do nap; done
    touch "$name.listening"
  fi
  wait $pid; echo "$? end" >"$name.rc" # in one write, and complete when its second word is there
}
while [ ! -e $JOBS/stop ]; do
  [ -e $JOBS/kill ] && { pkill -x timeout; rm $JOBS/kill; } # every job is below one
  for job in $JOBS/*.job; do
    [ -e "$job" ] || continue
    mv "$job" "${job%.job}.running"; run_job "${job%.job}.running" &
  done
  nap
done
