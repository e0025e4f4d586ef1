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
	// answerTime is the timeout of one request. acceptTime is how long an API server may reject a new token.
	answerTime = 10 * time.Second
	acceptTime = 10 * time.Second
	// bindingTime is how long an API server may not apply a new binding yet.
	bindingTime = 3 * time.Second
)

// right is a permission that the components require.
type right struct {
	verb, group, resource, subresource, name string
	// value is the chart value that grants the permission, if access.enabled alone does not.
	value string
}

func (r right) String() string {
	words := []string{r.verb, strings.TrimSuffix(r.resource+"/"+r.subresource, "/")}
	if r.group != "" {
		words[1] += "." + r.group
	}
	if r.name != "" {
		words = append(words, r.name)
	}
	return strings.Join(words, " ")
}

// workerRights are some of the permissions that the components of a core need in a worker. The last one identifies the cluster.
func workerRights() []right {
	return []right{
		{verb: "list", resource: "pods"}, {verb: "watch", resource: "pods"}, {verb: "get", resource: "pods"},
		{verb: "get", resource: "namespaces", name: metav1.NamespaceSystem},
	}
}

// coreRights are some of the permissions that the components of a worker need in a core.
func coreRights() []right {
	group := v1alpha1.GroupVersion.Group
	return []right{
		{verb: "list", group: group, resource: "podprotectors"}, {verb: "watch", group: group, resource: "podprotectors"},
		{verb: "update", group: group, resource: "podprotectors", subresource: "status"},
	}
}

// schedulingRights are the additional permissions that a webhook in a worker needs to apply the scheduling policies of a core.
func schedulingRights() (rights []right) {
	group, value := v1alpha1.GroupVersion.Group, "webhook.scheduling.enabled"
	for _, resource := range []string{"podschedulingpolicies", "clusterpodschedulingpolicies"} {
		rights = append(rights, right{verb: "list", group: group, resource: resource, value: value},
			right{verb: "watch", group: group, resource: resource, value: value},
			right{verb: "update", group: group, resource: resource, subresource: "status", value: value})
	}
	return rights
}

// try uses a new kubeconfig to check that the components can use the cluster.
func (l *link) try(ctx context.Context, kubeconfig []byte) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return err
	}
	config.Timeout, config.QPS = answerTime, -1 // no client-side rate limit: each permission is polled until it is granted
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := l.discover(ctx, clientset); err != nil {
		return fmt.Errorf("try the new kubeconfig of %s, which leads to %s (--%s-server and --%s-ca say otherwise, --skip-check leaves this out): %w",
			l.issuer.words, l.issuer.server, l.issuer.flag, l.issuer.flag, err)
	}
	for _, r := range l.rights {
		if err := r.require(ctx, clientset, l.issuer.words); err != nil {
			return err
		}
	}
	return l.identify(ctx, clientset)
}

// discover requests the API group of the link until the API server accepts the token.
func (l *link) discover(ctx context.Context, clientset kubernetes.Interface) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, acceptTime, true, func(context.Context) (bool, error) {
		_, last = clientset.Discovery().ServerResourcesForGroupVersion(l.group)
		return !apierrors.IsUnauthorized(last), nil
	})
	if apierrors.IsNotFound(last) {
		return fmt.Errorf("it does not serve %s: install the chart breakwater-crds there: %w", l.group, last)
	}
	if last != nil {
		return last
	}
	return err
}

func (r right) require(ctx context.Context, clientset kubernetes.Interface, cluster string) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Version: "*", Resource: r.resource, Subresource: r.subresource, Name: r.name,
		},
	}}
	allowed := false
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, bindingTime, true, func(ctx context.Context) (bool, error) {
		answer, err := clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		allowed = err == nil && answer.Status.Allowed
		return allowed, err
	})
	if err != nil && !wait.Interrupted(err) {
		return fmt.Errorf("ask %s what the ServiceAccount may do: %w", cluster, err)
	}
	if !allowed {
		return fmt.Errorf("the ServiceAccount may not %q in %s: upgrade the chart breakwater there, with %s: true", r, cluster, cmp.Or(r.value, "access.enabled"))
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
		return fmt.Errorf("ask %s who it is: %w", l.issuer.server, err)
	}
	if cluster != l.issuer.uid {
		return fmt.Errorf("%s is another cluster (%s) than the worker of --kubeconfig (%s): correct --worker-server", l.issuer.server, cluster, l.issuer.uid)
	}
	return nil
}
