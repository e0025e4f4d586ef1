
# stage: what the commands of sentences are about.
stage() (
	set -e
	application shop shop 2
	kubectl --context worker-1 label deployment -n shop shop breakwater.dev/shard-shops=shops-1
	kubectl --context worker-1 create deployment -n shop other --image web
	for pod in web-0 web-1; do
		kubectl --context worker-1 run -n shop "$pod" --image web --labels app=web
	done
	kubectl --context worker-1 wait -n shop --for condition=Ready pod/web-0 pod/web-1
	protect shop web 1
	counted shop web 2
	kubectl --context worker-1 create serviceaccount -n shop reader
	kubectl --context worker-1 create deployment -n shop web --image web --replicas 0
	kubectl --context worker-1 label nodes --all example.com/pool=etcd
	kubectl --context worker-1 create namespace breakwater-system
	# As the chart permits the aggregator.
	kubectl --context worker-1 create clusterrole breakwater-aggregator --verb get,patch --resource namespaces
	kubectl --context worker-1 create clusterrolebinding breakwater-aggregator --clusterrole breakwater-aggregator \
		--serviceaccount breakwater-system:breakwater-aggregator
	for secret in breakwater-webhook-tls breakwater-webhook-tls-ca; do
		kubectl --context worker-1 create secret generic -n breakwater-system "$secret" --from-literal tls.crt=one --from-literal ca.crt=one
	done
	kubectl --context core apply -f - <<-POLICY
		apiVersion: breakwater.dev/v1alpha1
		kind: PodSchedulingPolicy
		metadata: {namespace: shop, name: pool}
		spec: {podSelector: {matchLabels: {app: web}}, nodeSelector: {disk: ssd}}
	POLICY
)

export BREAKWATER_CORE_CONTEXT=core

# node: one of worker-1 that has a pod of the shop.
node() {
	kubectl --context worker-1 get pod -n shop web-0 -o 'jsonpath={.spec.nodeName}'
}

# strike: what is left besides namespaces.
strike() {
	kubectl --context worker-1 label nodes --all example.com/pool-
	kubectl --context worker-1 delete clusterrolebinding,clusterrole breakwater-aggregator
}
