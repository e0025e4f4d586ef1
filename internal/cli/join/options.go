// Package join gives the components of Breakwater in a core cluster and in a worker cluster access to the other cluster. It creates
// Secrets with kubeconfigs, whose tokens belong to ServiceAccounts with the least permissions needed.
package join

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Owner is the field manager, and the value of app.kubernetes.io/managed-by, of the objects that join creates.
const Owner = clusters.JoinManager

const managedBy = "app.kubernetes.io/managed-by"

// Direction says which cluster's components get access to the other.
type Direction string

// Directions. The empty Direction means both.
const (
	CoreToWorker Direction = "core-to-worker"
	WorkerToCore Direction = "worker-to-core"
)

// Cluster is one of the two clusters.
type Cluster struct {
	// Config is the administrator's client configuration.
	Config *rest.Config
	// Server is the address at which the other cluster reaches the API server. Empty means the address of Config.
	Server string
	// CA holds the PEM certificates that verify that address. Nil means those of Config.
	CA []byte
	// Context is the name of the administrator's context, which helps users to find the core. It may be empty.
	Context string
}

// Options configure a join.
type Options struct {
	Core, Worker Cluster
	// Cell is the name of the Cell, and CoreName the name of the core cluster.
	Cell, CoreName string
	// Identity is the Cell that names the worker's ServiceAccount in the core. Empty means Cell. Cells of one cluster share one.
	Identity string
	// Namespace is the namespace of Breakwater in both clusters. ServiceAccount is the account of the core's components in the worker,
	// and the name prefix of the worker's own account in the core.
	Namespace, ServiceAccount string
	// Lifetime is the requested validity of tokens. With 0 they are valid as long as their Secrets exist.
	Lifetime time.Duration
	Only     Direction
	// Scheduling also checks whether a webhook in the worker can apply the core's scheduling policies.
	Scheduling bool
	// NoCell does not write the Cell, SkipCheck does not test the new kubeconfigs, and KeepOld keeps former tokens valid.
	NoCell, SkipCheck, KeepOld bool
	// Grace is how long former tokens stay valid after their replacement.
	Grace time.Duration
}

// minTokenLifetime is the shortest token lifetime that an API server grants.
const minTokenLifetime = 10 * time.Minute

// Validate returns an error that names the flags with invalid values.
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
	// The account's name is the longest name that is derived from the cell, and a ServiceAccount name has at most 253 characters.
	if problems := validation.IsDNS1123Subdomain(o.cellAccount()); len(problems) > 0 {
		all = append(all, fmt.Errorf("--service-account %q: the name %q of the cell's ServiceAccount in the core is "+
			"invalid: %s", o.ServiceAccount, o.cellAccount(), problems[0]))
	}
	if o.Lifetime != 0 && o.Lifetime < minTokenLifetime {
		all = append(all, fmt.Errorf("--token-lifetime %s: want at least %s, or 0 for tokens that do not expire", o.Lifetime, minTokenLifetime))
	}
	if o.Grace < 0 {
		all = append(all, fmt.Errorf("--grace %s: want at least 0s", o.Grace))
	}
	if o.Only != "" && o.Only != CoreToWorker && o.Only != WorkerToCore {
		all = append(all, fmt.Errorf("--only %q: want %s or %s", o.Only, CoreToWorker, WorkerToCore))
	}
	return errors.Join(all...)
}
