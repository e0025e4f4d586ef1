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

// arguments returns the flags of a component.
func (c *Cluster) arguments(component federation.Component) []string {
	switch component {
	case federation.Etcd:
		if more := c.options.EtcdArguments; more != nil {
			return append(c.etcdArguments(), more(c.spec)...)
		}
		return c.etcdArguments()
	case federation.APIServer:
		arguments := append(c.apiServerArguments(), c.options.APIServerArguments...)
		if more := c.options.APIServerArgumentsOf; more != nil {
			arguments = append(arguments, more(c.spec)...)
		}
		return arguments
	case federation.ControllerManager:
		return c.controllerManagerArguments()
	case federation.Scheduler:
		return []string{
			"--config=" + c.layout.config(federation.Scheduler),
			"--secure-port=0",
		}
	default:
		return []string{
			"--config=" + c.layout.config(federation.Kwok),
			"--kubeconfig=" + c.layout.kubeconfig(string(federation.Kwok)),
			"--manage-all-nodes=true",
		}
	}
}

func (c *Cluster) etcdArguments() []string {
	client, peer := "https://"+c.ports[etcdClient].Address(), "https://"+c.ports[etcdPeer].Address()
	return []string{
		"--name=" + c.spec.Name,
		"--data-dir=" + c.layout.data(federation.Etcd),
		"--listen-client-urls=" + client,
		// With gRPC and HTTP on one port, TLS makes etcd serve gRPC by a slow path that can starve watches.
		"--listen-client-http-urls=https://" + c.ports[etcdHTTP].Address(),
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + c.spec.Name + "=" + peer,
		"--client-cert-auth=true",
		"--trusted-ca-file=" + c.layout.pki("etcd-ca.crt"),
		"--cert-file=" + c.layout.pki("etcd.crt"),
		"--key-file=" + c.layout.pki("etcd.key"),
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + c.layout.pki("etcd-ca.crt"),
		"--peer-cert-file=" + c.layout.pki("etcd.crt"),
		"--peer-key-file=" + c.layout.pki("etcd.key"),
		// The port's reservation holds the port; see port.Reservation.
		"--socket-reuse-port=true",
		// Data that etcd wrote is in the page cache, which survives a killed process. Only a crash of the machine loses
		// it, and no federation survives that. Without fsync, writes are several times faster.
		"--unsafe-no-fsync=true",
		"--log-level=warn",
	}
}

func (c *Cluster) apiServerArguments() []string {
	return []string{
		"--bind-address=" + port.Host,
		"--secure-port=" + strconv.Itoa(c.ports[apiServer].Number()),
		"--permit-port-sharing=true",
		"--etcd-servers=https://" + c.ports[etcdClient].Address(),
		"--etcd-cafile=" + c.layout.pki("etcd-ca.crt"),
		"--etcd-certfile=" + c.layout.pki("etcd-client.crt"),
		"--etcd-keyfile=" + c.layout.pki("etcd-client.key"),
		"--client-ca-file=" + c.layout.pki("ca.crt"),
		"--tls-cert-file=" + c.layout.pki("apiserver.crt"),
		"--tls-private-key-file=" + c.layout.pki("apiserver.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.layout.pki("service-account.key"),
		"--service-account-signing-key-file=" + c.layout.pki("service-account.key"),
		"--service-cluster-ip-range=" + serviceRange,
		// A loopback address is not a valid endpoint of the Service kubernetes, and no pod here would use it.
		"--endpoint-reconciler-type=none",
		// Watches end soon after SIGTERM. Without this the API server waits for its clients to end them.
		"--shutdown-watch-termination-grace-period=1s",
		"--allow-privileged=true",
	}
}

func (c *Cluster) controllerManagerArguments() []string {
	return []string{
		"--kubeconfig=" + c.layout.kubeconfig(string(federation.ControllerManager)),
		"--controllers=" + strings.Join(controllers(), ","),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.layout.pki("service-account.key"),
		"--root-ca-file=" + c.layout.pki("ca.crt"),
		// There is one instance, and its restart must not wait for the lease of a killed one.
		"--leader-elect=false",
		"--secure-port=0",
		// The default of 20 requests a second would slow down every storm in which the controllers take part.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
}
