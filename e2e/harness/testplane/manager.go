package testplane

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Client returns an administrator's client with Breakwater's and Kubernetes' kinds.
func Client(t testing.TB) client.Client {
	t.Helper()
	c, err := client.New(Config(t), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// User creates a user of the first control plane with the given rules in all namespaces, and no other rights. It returns when the API server
// authorizes the user: it reads roles and bindings by watches.
func User(t testing.TB, name string, rules []rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	meta, c := metav1.ObjectMeta{Name: name}, Client(t)
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		},
	} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Delete(context.Background(), object) })
	}
	user := Config(t)
	user.Impersonate = rest.ImpersonationConfig{UserName: name}
	awaitRights(t, name, rules)
	return user
}

// awaitRights waits until the API server authorizes a user for the first of the rules.
func awaitRights(t testing.TB, user string, rules []rbacv1.PolicyRule) {
	t.Helper()
	c := Client(t)
	if len(rules) == 0 {
		return
	}
	first := rules[0]
	spec := authorizationv1.SubjectAccessReviewSpec{User: user}
	if len(first.NonResourceURLs) > 0 {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: first.NonResourceURLs[0], Verb: first.Verbs[0]}
	} else {
		resource, subresource, _ := strings.Cut(first.Resources[0], "/")
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Group: first.APIGroups[0], Resource: resource, Subresource: subresource, Verb: first.Verbs[0],
		}
		if len(first.ResourceNames) > 0 {
			spec.ResourceAttributes.Name = first.ResourceNames[0]
		}
	}
	Eventually(t, func() string {
		review := &authorizationv1.SubjectAccessReview{Spec: spec}
		if err := c.Create(t.Context(), review); err != nil {
			return err.Error()
		}
		if !review.Status.Allowed {
			return fmt.Sprintf("user %q is not authorized for the rule %v yet", user, first)
		}
		return ""
	})
}

// StartManager creates a manager as an account, calls setup, and runs the manager until the test ends or stop is called. By default it
// logs nothing and serves nothing; change can override that.
func StartManager(t testing.TB, account *rest.Config, setup func(context.Context, manager.Manager) error, change ...func(*manager.Options)) (stop func()) {
	t.Helper()
	several := true
	options := manager.Options{
		Scheme: clusters.Scheme(), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &several},
	}
	for _, c := range change {
		c(&options)
	}
	mgr, err := manager.New(account, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := setup(ctx, mgr); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := awaitEnd(ended, waitTimeout); err != nil {
			t.Errorf("the manager: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// awaitEnd returns the result of a manager that was stopped, or an error if it does not end in time.
func awaitEnd(ended <-chan error, timeout time.Duration) error {
	select {
	case err := <-ended:
		return err
	case <-time.After(timeout):
		return fmt.Errorf("the manager still runs %s after it was stopped: a cache that never synced blocks it; "+
			"check that its account may list and watch all that it reads", timeout)
	}
}
