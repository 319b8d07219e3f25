#!/usr/bin/env bash
# A Slurm cluster of two nodes with two null devices for GPUs each, on this machine, for the tests: no systemd, no database.
# Debian and Ubuntu, as root:   tests/support/slurm_cluster.sh install | start | stop | status
# State is below $SLURM_SIM (default: xla_sweeps-slurm in the temporary folder); only processes that it started are ended.
set -euo pipefail
sim=${SLURM_SIM:-${TMPDIR:-/tmp}/xla_sweeps-slurm}
controller_port=${SLURM_SIM_PORT:-17817}
host=$(hostname -s)
export SLURM_CONF=$sim/etc/slurm.conf

install() {
  command -v slurmctld >/dev/null && command -v munged >/dev/null && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm slurm-wlm-basic-plugins munge >/dev/null
}

configure() {
  mkdir -p "$sim"/{etc,run,log,state,spool/n0,spool/n1,munge,dev/n0,dev/n1}
  chmod 755 "$sim" "$sim"/{etc,run,log,state,spool}
  chmod 700 "$sim/munge"
  if [ ! -s "$sim/munge/munge.key" ]; then
    dd if=/dev/urandom bs=1 count=1024 of="$sim/munge/munge.key" status=none
    chmod 600 "$sim/munge/munge.key"
  fi
  # A GPU of Slurm's must be a device node; the trailing digit becomes its index.
  for node in n0 n1; do
    for index in 0 1; do [ -c "$sim/dev/$node/nvidia$index" ] || mknod "$sim/dev/$node/nvidia$index" c 1 3; done
  done
  # cred_expire: a requeued job waits that long, then for the next sched_interval. KillWait: seconds that a preempted job has to
  # save its work. No GraceTime: Slurm looks only every 30 s whether it is over, and signals a batch script no earlier.
  cat >"$SLURM_CONF" <<CONF
ClusterName=sim
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller_port
AuthType=auth/munge
AuthInfo=socket=$sim/run/munge.socket,cred_expire=5
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$sim/state
SlurmdSpoolDir=$sim/spool/%n
SlurmctldPidFile=$sim/run/slurmctld.pid
SlurmdPidFile=$sim/run/slurmd-%n.pid
SlurmctldLogFile=$sim/log/slurmctld.log
SlurmdLogFile=$sim/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,sched_min_interval=100000,batch_sched_delay=0
GresTypes=gpu
ReturnToService=2
SlurmdTimeout=300
MessageTimeout=60
InactiveLimit=0
KillWait=10
MinJobAge=60
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
NodeName=n0 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((controller_port + 1)) CPUs=4 RealMemory=10000 Gres=gpu:a100:2 State=UNKNOWN
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((controller_port + 2)) CPUs=4 RealMemory=10000 Gres=gpu:v100:2 State=UNKNOWN
PartitionName=gpu Nodes=n0,n1 Default=YES MaxTime=60 State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=vip Nodes=n0,n1 MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
CONF
  cat >"$sim/etc/gres.conf" <<CONF
AutoDetect=off
NodeName=n0 Name=gpu Type=a100 File=$sim/dev/n0/nvidia[0-1]
NodeName=n1 Name=gpu Type=v100 File=$sim/dev/n1/nvidia[0-1]
CONF
}

alive() { [ -s "$sim/run/$1.pid" ] && kill -0 "$(cat "$sim/run/$1.pid")" 2>/dev/null; }

wait_for() {
  for _ in $(seq 1200); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "timed out: $*" >&2
  return 1
}

ready() { [ "$(sinfo -h -N -p gpu -o %T | grep -cE '^(idle|mixed|allocated)$')" = 2 ]; }

start() {
  configure
  if ! alive munged; then
    rm -f "$sim/run/munge.socket"*
    munged --force --key-file="$sim/munge/munge.key" --socket="$sim/run/munge.socket" --pid-file="$sim/run/munged.pid" \
      --log-file="$sim/log/munged.log" --seed-file="$sim/munge/munge.seed" --num-threads=2
  fi
  wait_for test -S "$sim/run/munge.socket"
  alive slurmctld || slurmctld -c -f "$SLURM_CONF"
  wait_for scontrol ping
  for node in n0 n1; do alive "slurmd-$node" || slurmd -N "$node" -f "$SLURM_CONF"; done
  wait_for ready
}

stop() {
  scancel --full -u "$(id -un)" 2>/dev/null || true
  local names="slurmd-n0 slurmd-n1 slurmctld munged" name
  for name in $names; do
    if alive "$name"; then kill "$(cat "$sim/run/$name.pid")"; fi
  done
  for name in $names; do
    for _ in $(seq 60); do
      alive "$name" || break
      sleep 0.1
    done
    rm -f "$sim/run/$name.pid"
  done
}

status() {
  sinfo -N -o "%N %T %G"
  squeue
}

case "${1:-}" in
  install | start | stop | status) "$1" ;;
  *)
    sed -n 2,4p "$0"
    exit 2
    ;;
esac
