package clusters

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Scheme returns a scheme with the kinds of Kubernetes and of Breakwater, for the clients of all clusters. It can only fail if two Go types
// register the same kind. That is a programming error, which shows at every start.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}
