# What comments "prepare:" of pages may call.

# await COMMAND: until it ends well.
await() {
	for _ in $(seq 150); do
		if said=$(eval "$1" 2>&1); then return; fi
		sleep 0.1
	done
	echo "waited for: $1"
	echo "$said"
	return 1
}

# application NAMESPACE NAME PODS: a Deployment in worker-1, whose pods are available, and the namespace in the core.
application() {
	for cluster in core worker-1; do
		kubectl --context "$cluster" get namespace "$1" >/dev/null 2>&1 || kubectl --context "$cluster" create namespace "$1"
	done
	kubectl --context worker-1 create deployment -n "$1" "$2" --image web --replicas "$3"
	kubectl --context worker-1 rollout status -n "$1" "deployment/$2"
}

# protect NAMESPACE NAME FLOOR: of the pods labeled app=NAME.
protect() {
	kubectl --context core apply -f - <<-PROTECTOR
		apiVersion: breakwater.dev/v1alpha1
		kind: PodProtector
		metadata: {namespace: $1, name: $2}
		spec: {selector: {matchLabels: {app: $2}}, minAvailable: $3, admissionHistory: {aggregationRateMillis: 200}}
	PROTECTOR
}

# counted NAMESPACE NAME PODS: until the protector has that many available ones.
counted() {
	await "kubectl --context core get podprotector -n '$1' '$2' -o 'jsonpath={.status.summary.available}' | grep -qx '$3'" ||
		{ kubectl --context core get podprotector -n "$1" "$2" -o yaml; return 1; }
}

# authority: the CA of a cluster, for commands that want one.
authority() {
	kubectl config view --raw --flatten -o 'jsonpath={.clusters[0].cluster.certificate-authority-data}' | base64 -d
}

# clean CLUSTER/NAMESPACE...: what a page has left.
clean() {
	for at in "$@"; do
		kubectl --context "${at%/*}" annotate namespace "${at#*/}" breakwater.dev/confirm-release=true
		if [ "${at%/*}" = core ]; then kubectl --context core delete podprotectors -n "${at#*/}" --all --wait=false; fi
	done
	for at in "$@"; do
		in="--context ${at%/*}" namespace=${at#*/}
		kubectl $in label namespace "$namespace" breakwater.dev/exempt=true
		kubectl $in delete deployments,pods -n "$namespace" --all --grace-period=0 --force
		kubectl $in delete namespace "$namespace" --wait=false
	done
	for at in "$@"; do
		await "! kubectl --context ${at%/*} get namespace ${at#*/}"
	done
}
