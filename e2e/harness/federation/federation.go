// Package federation describes federations of clusters for demos, tests and fault injection: core clusters that hold protectors,
// worker clusters that run pods. Package local starts one as processes of this machine, package kind as Docker containers.
package federation

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

// ReadyAnnotation on a pod of a worker controls its readiness. The value "false" makes a ready pod unready and keeps it so. With
// any other value, or without the annotation, the pod becomes ready.
const ReadyAnnotation = "federation.breakwater.dev/ready"

// StartAnnotation on a pod of a worker is the time from its scheduling to a node until it runs, as a Go duration. The default is
// 0.
const StartAnnotation = "federation.breakwater.dev/start"

// UpdateAnnotation on a pod, with the value "held", keeps its kubelet from noticing an in-place change of its spec.
const UpdateAnnotation = "federation.breakwater.dev/update"

// CompleteAnnotation on a pod of a Job, with the value "held", keeps it from completing.
const CompleteAnnotation = "federation.breakwater.dev/complete"

// Federation is a set of running clusters.
type Federation interface {
	Topology() *Topology
	Cluster(name string) (Cluster, bool)
	// Clusters returns all clusters in the order of the topology. Cores and Workers return those with that role.
	Clusters() []Cluster
	Cores() []Cluster
	Workers() []Cluster
	// Dir returns the directory that holds kubeconfigs and logs.
	Dir() string
	// Stop ends all clusters and returns when nothing of them is left. When ctx ends, it kills the rest.
	Stop(ctx context.Context) error
}

// Cluster is one running cluster. If its backend supports fault injection, it also implements Faults.
type Cluster interface {
	Name() string
	HasRole(role Role) bool
	// Kubeconfig returns the path of an administrator's kubeconfig.
	Kubeconfig() string
	// RESTConfig returns an administrator's configuration, a copy that the caller owns. It has no client-side rate limit, which a
	// storm would hit.
	RESTConfig() *rest.Config
}

// Component names one part of a cluster's control plane.
type Component string

// The components, in the order in which they start.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	// Kwok simulates the nodes and the kubelets.
	Kwok Component = "kwok"
	// Kubelet runs the pods of a node, in clusters without Kwok.
	Kubelet Component = "kubelet"
)

// Faults injects faults into one cluster.
type Faults interface {
	// Components lists the components that this cluster runs.
	Components() []Component
	// Kill ends a component at once, without a chance to clean up, and returns when it has ended.
	Kill(component Component) error
	// Freeze suspends a component in the middle of its work. Its connections stay open.
	Freeze(component Component) error
	// Thaw resumes a frozen component.
	Thaw(component Component) error
	// Restart ends a component if it runs, starts it on the same port with the same data, and returns when it works again.
	Restart(ctx context.Context, component Component) error
	// Proxy puts a proxy in front of the API server, for one client. Stop of the federation closes the proxy.
	Proxy(ctx context.Context) (*Proxy, error)
}

// Proxy is a proxy between one client and an API server. The client connects with Kubeconfig or RESTConfig. The methods of the
// embedded proxy disturb only this connection.
type Proxy struct {
	*proxy.Proxy
	kubeconfig string
	config     *rest.Config
}

// Kubeconfig returns the path of an administrator's kubeconfig that uses the proxy.
func (p *Proxy) Kubeconfig() string { return p.kubeconfig }

// RESTConfig returns an administrator's configuration that uses the proxy, a copy that the caller owns.
func (p *Proxy) RESTConfig() *rest.Config { return rest.CopyConfig(p.config) }
