package local

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

// serviceRange is the range of cluster IPs, which are not routed.
const serviceRange = "10.96.0.0/16"

func firstServiceIP() net.IP { return net.ParseIP("10.96.0.1") }

// controllers returns the controllers that a federation needs. Those for volumes, certificates, routes and cloud load
// balancers would idle, and each costs start-up time.
func controllers() []string {
	return []string{
		"clusterrole-aggregation-controller",
		"cronjob-controller",
		"daemonset-controller",
		"deployment-controller",
		"disruption-controller",
		"endpointslice-controller",
		"garbage-collector-controller",
		"horizontal-pod-autoscaler-controller",
		"job-controller",
		"namespace-controller",
		"node-lifecycle-controller",
		"pod-garbage-collector-controller",
		"replicaset-controller",
		"replicationcontroller-controller",
		"resourcequota-controller",
		"root-ca-certificate-publisher-controller",
		"serviceaccount-controller",
		"serviceaccount-token-controller",
		"statefulset-controller",
		"taint-eviction-controller",
		"ttl-after-finished-controller",
		"validatingadmissionpolicy-status-controller",
	}
}

// layout holds the paths of a cluster's files.
type layout struct{ folder string }

func (l layout) pki(file string) string { return filepath.Join(l.folder, "pki", file) }

func (l layout) data(c federation.Component) string {
	return filepath.Join(l.folder, "data", string(c))
}

func (l layout) log(c federation.Component) string {
	return filepath.Join(l.folder, "logs", string(c)+".log")
}

func (l layout) config(c federation.Component) string {
	return filepath.Join(l.folder, string(c)+".yaml")
}

func (l layout) kubeconfig(user string) string { return filepath.Join(l.folder, user+".kubeconfig") }

// flags are the command lines of a cluster's components.
type flags struct {
	spec    federation.ClusterSpec
	options *Options
	layout  layout
	ports   map[purpose]*port.Reservation
}

// of returns the flags of a component.
func (f *flags) of(component federation.Component) []string {
	switch component {
	case federation.Etcd:
		if more := f.options.EtcdArguments; more != nil {
			return append(f.etcd(), more(f.spec)...)
		}
		return f.etcd()
	case federation.APIServer:
		arguments := append(f.apiServer(), f.options.APIServerArguments...)
		if more := f.options.APIServerArgumentsOf; more != nil {
			arguments = append(arguments, more(f.spec)...)
		}
		return arguments
	case federation.ControllerManager:
		return f.controllerManager()
	case federation.Scheduler:
		return []string{
			"--config=" + f.layout.config(federation.Scheduler),
			"--secure-port=0",
		}
	default:
		return []string{
			"--config=" + f.layout.config(federation.Kwok),
			"--kubeconfig=" + f.layout.kubeconfig(string(federation.Kwok)),
			"--manage-all-nodes=true",
		}
	}
}

func (f *flags) etcd() []string {
	client, peer := "https://"+f.ports[etcdClient].Address(), "https://"+f.ports[etcdPeer].Address()
	return []string{
		"--name=" + f.spec.Name,
		"--data-dir=" + f.layout.data(federation.Etcd),
		"--listen-client-urls=" + client,
		// With gRPC and HTTP on one port, TLS makes etcd serve gRPC by a slow path that can starve watches.
		"--listen-client-http-urls=https://" + f.ports[etcdHTTP].Address(),
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + f.spec.Name + "=" + peer,
		"--client-cert-auth=true",
		"--trusted-ca-file=" + f.layout.pki("etcd-ca.crt"),
		"--cert-file=" + f.layout.pki("etcd.crt"),
		"--key-file=" + f.layout.pki("etcd.key"),
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + f.layout.pki("etcd-ca.crt"),
		"--peer-cert-file=" + f.layout.pki("etcd.crt"),
		"--peer-key-file=" + f.layout.pki("etcd.key"),
		// The port's reservation holds the port; see port.Reservation.
		"--socket-reuse-port=true",
		// Data that etcd wrote is in the page cache, which survives a killed process. Only a crash of the machine loses
		// it, and no federation survives that. Without fsync, writes are several times faster.
		"--unsafe-no-fsync=true",
		"--log-level=warn",
	}
}

func (f *flags) apiServer() []string {
	return []string{
		"--bind-address=" + port.Host,
		"--secure-port=" + strconv.Itoa(f.ports[apiServer].Number()),
		"--permit-port-sharing=true",
		"--etcd-servers=https://" + f.ports[etcdClient].Address(),
		"--etcd-cafile=" + f.layout.pki("etcd-ca.crt"),
		"--etcd-certfile=" + f.layout.pki("etcd-client.crt"),
		"--etcd-keyfile=" + f.layout.pki("etcd-client.key"),
		"--client-ca-file=" + f.layout.pki("ca.crt"),
		"--tls-cert-file=" + f.layout.pki("apiserver.crt"),
		"--tls-private-key-file=" + f.layout.pki("apiserver.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + f.layout.pki("service-account.key"),
		"--service-account-signing-key-file=" + f.layout.pki("service-account.key"),
		"--service-cluster-ip-range=" + serviceRange,
		// A loopback address is not a valid endpoint of the Service kubernetes, and no pod here would use it.
		"--endpoint-reconciler-type=none",
		// Watches end soon after SIGTERM. Without this the API server waits for its clients to end them.
		"--shutdown-watch-termination-grace-period=1s",
		"--allow-privileged=true",
	}
}

func (f *flags) controllerManager() []string {
	return []string{
		"--kubeconfig=" + f.layout.kubeconfig(string(federation.ControllerManager)),
		"--controllers=" + strings.Join(controllers(), ","),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + f.layout.pki("service-account.key"),
		"--root-ca-file=" + f.layout.pki("ca.crt"),
		// There is one instance, and its restart must not wait for the lease of a killed one.
		"--leader-elect=false",
		"--secure-port=0",
		// The default of 20 requests a second would slow down every storm in which the controllers take part.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
}
