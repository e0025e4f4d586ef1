// Package join gives the components of Breakwater in a core cluster and in a worker cluster the way into each other's cluster:
// tokens of ServiceAccounts that may do the least that is needed, in kubeconfigs, in Secrets.
package join

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
)

// Owner is the field manager, and the value of app.kubernetes.io/managed-by, of what is made here.
const Owner = "breakwater-join"

const managedBy = "app.kubernetes.io/managed-by"

// Direction is whose components get into whose cluster.
type Direction string

// The two directions; none is both.
const (
	CoreToWorker Direction = "core-to-worker"
	WorkerToCore Direction = "worker-to-core"
)

// Cluster is one of the two.
type Cluster struct {
	// Config is an administrator's.
	Config *rest.Config
	// Server is the address by which the other one reaches its apiserver; empty is that of Config.
	Server string
	// CA is the PEM certificates that vouch for that address; nil is those of Config.
	CA []byte
}

// Options say what is to be joined.
type Options struct {
	Core, Worker Cluster
	// Cell is the name of the Cell, CoreName that of the core cluster.
	Cell, CoreName string
	// Identity is the Cell by whose name the worker's ServiceAccount in the core is called; empty is Cell. Cells of one cluster share one.
	Identity string
	// Namespace is that of Breakwater in both clusters. ServiceAccount is that of the core's components in the worker, and the beginning of
	// the name of the worker's own in the core.
	Namespace, ServiceAccount string
	// Lifetime is how long tokens are asked to be valid; 0 is for as long as the Secrets are there that hold them.
	Lifetime time.Duration
	Only     Direction
	// Scheduling tries as well whether a webhook in the worker could heed the core's scheduling policies.
	Scheduling bool
	// NoCell leaves the Cell alone, SkipCheck does not try the new kubeconfigs, and KeepOld leaves former tokens valid.
	NoCell, SkipCheck, KeepOld bool
	// Grace is how long former tokens stay valid after they were replaced.
	Grace time.Duration
}

// shortestLifetime is what an apiserver grants at least.
const shortestLifetime = 10 * time.Minute

// Validate names the flags of what cannot be.
func (o *Options) Validate() error {
	var all []error
	for flag, name := range map[string]string{"cell": o.Cell, "core": o.CoreName, "namespace": o.Namespace} {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			all = append(all, fmt.Errorf("--%s %q is not a name: %s", flag, name, problems[0]))
		}
	}
	if problems := validation.IsDNS1123Label(o.identity()); o.Identity != "" && len(problems) > 0 {
		all = append(all, fmt.Errorf("--identity %q is not a name: %s", o.Identity, problems[0]))
	}
	// The name of the cell's account is the longest that is made of it, and a ServiceAccount's may have 253 characters.
	if problems := validation.IsDNS1123Subdomain(o.cellAccount()); len(problems) > 0 {
		all = append(all, fmt.Errorf("--service-account %q: the name %q of the cell's ServiceAccount in the core cannot be: %s", o.ServiceAccount, o.cellAccount(), problems[0]))
	}
	if o.Lifetime != 0 && o.Lifetime < shortestLifetime {
		all = append(all, fmt.Errorf("--token-lifetime %s: want at least %s, or 0 for tokens that do not expire", o.Lifetime, shortestLifetime))
	}
	if o.Grace < 0 {
		all = append(all, fmt.Errorf("--grace %s: want 0s or more", o.Grace))
	}
	if o.Only != "" && o.Only != CoreToWorker && o.Only != WorkerToCore {
		all = append(all, fmt.Errorf("--only %q: want %s or %s", o.Only, CoreToWorker, WorkerToCore))
	}
	return errors.Join(all...)
}
