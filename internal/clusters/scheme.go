package clusters

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Scheme returns a scheme that knows Kubernetes' own kinds and ours, for the clients of all clusters. What can go
// wrong is that two Go types are of one kind: a mistake in the program, which every start of it would show.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}
