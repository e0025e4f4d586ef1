package join

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

const (
	// requestTimeout is the timeout of one request. tokenAcceptTimeout is how long an API server may reject a new token.
	requestTimeout     = 10 * time.Second
	tokenAcceptTimeout = 10 * time.Second
	// bindingTimeout is how long an API server may not apply a new binding yet.
	bindingTimeout = 3 * time.Second
)

// permission is a permission that the components require.
type permission struct {
	verb, group, resource, subresource, name string
	// chartValue is the chart value that grants the permission, if access.enabled alone does not.
	chartValue string
}

func (r permission) String() string {
	words := []string{r.verb, strings.TrimSuffix(r.resource+"/"+r.subresource, "/")}
	if r.group != "" {
		words[1] += "." + r.group
	}
	if r.name != "" {
		words = append(words, r.name)
	}
	return strings.Join(words, " ")
}

// workerPermissions are some of the permissions that the components of a core need in a worker. The last one identifies the cluster.
func workerPermissions() []permission {
	return []permission{
		{verb: "list", resource: "pods"}, {verb: "watch", resource: "pods"}, {verb: "get", resource: "pods"},
		{verb: "get", resource: "namespaces", name: metav1.NamespaceSystem},
	}
}

// corePermissions are some of the permissions that the components of a worker need in a core.
func corePermissions() []permission {
	group := v1alpha1.GroupVersion.Group
	return []permission{
		{verb: "list", group: group, resource: "podprotectors"}, {verb: "watch", group: group, resource: "podprotectors"},
		{verb: "update", group: group, resource: "podprotectors", subresource: "status"},
	}
}

// schedulingPermissions are the additional permissions that a webhook in a worker needs to apply the scheduling policies of a core.
func schedulingPermissions() (rights []permission) {
	group, value := v1alpha1.GroupVersion.Group, "webhook.scheduling.enabled"
	for _, resource := range []string{"podschedulingpolicies", "clusterpodschedulingpolicies"} {
		rights = append(rights, permission{verb: "list", group: group, resource: resource, chartValue: value},
			permission{verb: "watch", group: group, resource: resource, chartValue: value},
			permission{verb: "update", group: group, resource: resource, subresource: "status", chartValue: value})
	}
	return rights
}

// testKubeconfig uses a new kubeconfig to check that the components can use the cluster.
func (l *link) testKubeconfig(ctx context.Context, kubeconfig []byte) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return err
	}
	config.Timeout, config.QPS = requestTimeout, -1 // no client-side rate limit: each permission is polled until it is granted
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := l.discover(ctx, clientset); err != nil {
		return fmt.Errorf("test the new kubeconfig of %s for %s (change the address with --%s-server and --%s-ca, or skip the test with --skip-check): %w",
			l.issuer.title, l.issuer.server, l.issuer.flag, l.issuer.flag, err)
	}
	for _, r := range l.permissions {
		if err := r.require(ctx, clientset, l.issuer.title); err != nil {
			return err
		}
	}
	return l.identify(ctx, clientset)
}

// discover requests the API group of the link until the API server accepts the token.
func (l *link) discover(ctx context.Context, clientset kubernetes.Interface) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, tokenAcceptTimeout, true, func(context.Context) (bool, error) {
		_, last = clientset.Discovery().ServerResourcesForGroupVersion(l.group)
		return !apierrors.IsUnauthorized(last), nil
	})
	if apierrors.IsNotFound(last) {
		return fmt.Errorf("the cluster does not serve %s: install the chart breakwater-crds there: %w", l.group, last)
	}
	if last != nil {
		return last
	}
	return err
}

func (r permission) require(ctx context.Context, clientset kubernetes.Interface, cluster string) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Version: "*", Resource: r.resource, Subresource: r.subresource, Name: r.name,
		},
	}}
	allowed := false
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, bindingTimeout, true, func(ctx context.Context) (bool, error) {
		answer, err := clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		allowed = err == nil && answer.Status.Allowed
		return allowed, err
	})
	if err != nil && !wait.Interrupted(err) {
		return fmt.Errorf("review the permissions of the ServiceAccount in %s: %w", cluster, err)
	}
	if !allowed {
		return fmt.Errorf("the ServiceAccount may not %q in %s: upgrade the chart breakwater there, with %s: true", r, cluster, cmp.Or(r.chartValue, "access.enabled"))
	}
	return nil
}

// identify returns an error if the address leads to a worker other than the administrator's. Another core would have rejected the token.
func (l *link) identify(ctx context.Context, clientset kubernetes.Interface) error {
	if l.direction != CoreToWorker {
		return nil
	}
	cluster, err := clusters.ClusterOf(ctx, clientset)
	if err != nil {
		return fmt.Errorf("identify the cluster of %s: %w", l.issuer.server, err)
	}
	if cluster != l.issuer.uid {
		return fmt.Errorf("%s is another cluster (%s) than the worker of --kubeconfig (%s): correct --worker-server", l.issuer.server, cluster, l.issuer.uid)
	}
	return nil
}
