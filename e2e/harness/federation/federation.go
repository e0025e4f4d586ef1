// Package federation describes federations of clusters to play with, to test on and to break: core clusters that
// hold protectors, worker clusters that run pods. Package local brings one up as processes of this machine, package kind as
// containers of docker.
package federation

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

// ReadyAnnotation on a pod of a worker decides its readiness: "false" makes a ready pod unready and keeps it so,
// every other value or none makes it ready.
const ReadyAnnotation = "federation.breakwater.dev/ready"

// StartAnnotation on a pod of a worker is how long it takes to run, from when it has a node, as a Go duration; none is no time.
const StartAnnotation = "federation.breakwater.dev/start"

// UpdateAnnotation on a pod, with the value "held", keeps its kubelet from noticing that its spec was changed in place.
const UpdateAnnotation = "federation.breakwater.dev/update"

// CompleteAnnotation on a pod of a Job, with the value "held", keeps it from completing.
const CompleteAnnotation = "federation.breakwater.dev/complete"

// Federation is a set of running clusters.
type Federation interface {
	Topology() *Topology
	Cluster(name string) (Cluster, bool)
	// Clusters gives all clusters in the order of the topology; Cores and Workers those with that role.
	Clusters() []Cluster
	Cores() []Cluster
	Workers() []Cluster
	// Dir is the folder that holds kubeconfigs and logs.
	Dir() string
	// Stop ends all clusters and returns when nothing of them is left. It kills what is left when ctx ends.
	Stop(ctx context.Context) error
}

// Cluster is one running cluster. A cluster whose backend can break it implements Faults too.
type Cluster interface {
	Name() string
	Is(role Role) bool
	// Kubeconfig is the path of an administrator's kubeconfig.
	Kubeconfig() string
	// RESTConfig is an administrator's configuration, a copy that the caller owns. It has no client-side rate
	// limit, which a storm would hit.
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
	// Kwok plays the nodes and the kubelets.
	Kwok Component = "kwok"
	// Kubelet runs the pods of a node, where no Kwok plays.
	Kubelet Component = "kubelet"
)

// Faults breaks one cluster.
type Faults interface {
	// Components lists what this cluster runs.
	Components() []Component
	// Kill ends a component at once, without a chance to clean up, and returns when it is gone.
	Kill(component Component) error
	// Freeze makes a component stop in the middle of what it does; its connections stay open.
	Freeze(component Component) error
	// Thaw makes a frozen component go on.
	Thaw(component Component) error
	// Restart ends a component if it runs, starts it on the same port with the data it had, and returns when it
	// works again.
	Restart(ctx context.Context, component Component) error
	// Proxy puts a proxy in front of the apiserver, for one client. Stop of the federation closes it.
	Proxy(ctx context.Context) (*Proxy, error)
}

// Proxy stands between one client and an apiserver. The client reaches the apiserver by Kubeconfig or RESTConfig;
// the methods of the embedded proxy disturb that connection and no other.
type Proxy struct {
	*proxy.Proxy
	kubeconfig string
	config     *rest.Config
}

// NewProxy is for backends: it couples a running proxy with the configurations that lead through it.
func NewProxy(p *proxy.Proxy, kubeconfig string, config *rest.Config) *Proxy {
	return &Proxy{Proxy: p, kubeconfig: kubeconfig, config: config}
}

// Kubeconfig is the path of an administrator's kubeconfig that leads through the proxy.
func (p *Proxy) Kubeconfig() string { return p.kubeconfig }

// RESTConfig is an administrator's configuration that leads through the proxy, a copy that the caller owns.
func (p *Proxy) RESTConfig() *rest.Config { return rest.CopyConfig(p.config) }
