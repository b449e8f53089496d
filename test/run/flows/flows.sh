#!/usr/bin/env bash
# The main flows of the controllers, played with kubectl on a cluster that has them, two nodes of eight simulated GPUs, and nothing else:
#   muster nodes sim --install --pool h100=2; KUBECONFIG=... test/run/flows/flows.sh
# Afterwards tools/auditRights.ts compares the roles with the audit log.
set -euo pipefail
here=$(dirname "$0")
running() { # running COUNT SELECTOR: so many pods of it run
  for _ in $(seq 1 120); do
    [ "$(kubectl get pods -l "$2" --field-selector=status.phase=Running --no-headers 2>/dev/null | wc -l)" -ge "$1" ] && return
    sleep 0.5
  done
  echo "no $1 pods of $2 run:" >&2
  kubectl get pods -l "$2" >&2
  exit 1
}
gone() { for _ in $(seq 1 120); do [ -z "$(kubectl get "$@" --no-headers 2>/dev/null)" ] && return; sleep 0.5; done; echo "$* are still there" >&2; exit 1; }

kubectl apply -f "$here/10-queues.yaml" -f "$here/20-shares.yaml" -f "$here/30-claim.yaml" -f "$here/35-volume.yaml" >/dev/null
running 3 kai.scheduler/queue=lender
kubectl wait pvc/late --for=jsonpath='{.metadata.annotations.volume\.kubernetes\.io/selected-node}' --timeout=60s >/dev/null
kubectl wait pod/with-local --for=jsonpath='{.status.phase}'=Running --timeout=60s >/dev/null
[ "$(kubectl get pod with-local -o jsonpath='{.spec.nodeName}')" = h100-1 ] || { echo "with-local is not on the node of its volume" >&2; exit 1; }
kubectl apply -f "$here/70-topology.yaml" >/dev/null
kubectl wait clustertopologybinding/flow --for=condition=SchedulerTopologyDrift=False --timeout=30s >/dev/null
kubectl apply -f "$here/60-gang.yaml" >/dev/null
running 7 app.kubernetes.io/part-of=flow
kubectl apply -f "$here/40-borrower.yaml" >/dev/null
running 12 app=borrow
kubectl apply -f "$here/50-reclaimer.yaml" >/dev/null # evicts
running 5 app=reclaim
kubectl apply -f "$here/../../../examples/gangs/resource-sharing.yaml" >/dev/null
kubectl patch pcs flow --type=json -p '[{"op":"replace","path":"/spec/template/cliques/0/spec/podSpec/containers/0/image","value":"registry.example.com/serve:2"}]' >/dev/null
kubectl patch pcs flow --type=merge -p '{"spec":{"replicas":2}}' >/dev/null
running 12 app.kubernetes.io/part-of=flow
kubectl patch pcs flow --type=merge -p '{"spec":{"replicas":1}}' >/dev/null
kubectl delete pod half-1 --wait=false >/dev/null
kubectl delete pcs --all --wait=false >/dev/null
kubectl delete deployments,jobs --all --wait=false >/dev/null
kubectl delete pods --all --wait=false >/dev/null
gone pods
gone pcs
gone podgroups.scheduling.run.ai
gone bindrequests
gone pods -n kai-resource-reservation
kubectl delete -f "$here/35-volume.yaml" -f "$here/30-claim.yaml" -f "$here/70-topology.yaml" --ignore-not-found >/dev/null
kubectl delete queue lender borrower >/dev/null
until kubectl delete queue org >/dev/null 2>&1; do sleep 0.2; done # the webhook may not have seen yet that they are gone
echo "all flows passed"
