package sharder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// resource is a resource that a ring names, as the API server serves it.
type resource struct {
	v1alpha1.GroupResource
	version, kind string
	namespaced    bool
	// mains are the resources whose objects control objects of this one; none for one of the ring's own resources.
	mains []*resource
	// hasAllMains is true if mains has all such resources that the ring names: if none of them controls an object, no object of the ring does.
	hasAllMains bool
}

func (r *resource) String() string {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
}

func (r *resource) versioned() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.version, Resource: r.Resource}
}

// layout has the resources that passes of a ring can use.
type layout struct{ mains, controlled []*resource }

// problem is why a part of a ring's spec cannot be applied, and the remedy.
type problem struct{ reason, message string }

// specChecker checks which parts of a ring's spec can be applied.
type specChecker struct {
	kubernetes.Interface

	mu sync.Mutex
	// lastServed are resources as they were last served, for when the API server does not answer.
	lastServed map[v1alpha1.GroupResource]resource
}

func newSpecChecker(clientset kubernetes.Interface) *specChecker {
	return &specChecker{Interface: clientset, lastServed: map[v1alpha1.GroupResource]resource{}}
}

// check checks which of a ring's resources are served and permitted. The ring continues with those resources alone.
func (i *specChecker) check(ctx context.Context, spec *v1alpha1.ClusterRingSpec) (layout, []problem) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := metav1.LabelSelectorAsSelector(spec.NamespaceSelector.LabelSelector()); err != nil {
		return layout{}, []problem{{v1alpha1.ReasonInvalidSelector, fmt.Sprintf("Correct spec.namespaceSelector: %v.", err)}}
	}
	all, problems := layout{}, []problem(nil)
	find := func(gr v1alpha1.GroupResource) *resource {
		found, p := i.find(ctx, gr)
		if p != nil {
			problems = append(problems, *p)
		}
		return found
	}
	controlled := map[v1alpha1.GroupResource]*resource{}
	for _, named := range spec.Resources {
		main := find(named.GroupResource)
		if main != nil {
			all.mains = append(all.mains, main)
		}
		for _, gr := range named.ControlledResources {
			r, exists := controlled[gr]
			if !exists {
				if r = find(gr); r != nil {
					r.hasAllMains = true
					all.controlled = append(all.controlled, r)
				}
				controlled[gr] = r
			}
			switch {
			case r == nil:
			case main == nil:
				r.hasAllMains = false
			default:
				r.mains = append(r.mains, main)
			}
		}
	}
	return all, problems
}

// find looks up a resource, or returns a problem. If the API server does not answer, the last answer stands: a list of the objects detects
// a change soon enough.
func (i *specChecker) find(ctx context.Context, gr v1alpha1.GroupResource) (*resource, *problem) {
	name := schema.GroupResource{Group: gr.Group, Resource: gr.Resource}.String()
	r, err := i.lookUp(ctx, gr)
	if r = i.withFallback(gr, r, err); r == nil && err != nil {
		return nil, &problem{v1alpha1.ReasonResourceNotServed, fmt.Sprintf(
			"The sharder cannot determine whether the API server serves %s, and retries: %v.", name, err)}
	}
	if r == nil {
		return nil, &problem{v1alpha1.ReasonResourceNotServed, fmt.Sprintf(
			"The API server does not serve %s with the verbs get, list and patch: install its CustomResourceDefinition or API server, or correct spec.resources. "+
				"Until then, the sharder does not assign its objects.", name)}
	}
	if missing, err := i.missingVerbs(ctx, gr); err == nil && len(missing) > 0 {
		return nil, &problem{v1alpha1.ReasonResourceForbidden, fmt.Sprintf(
			"The sharder may not %s %s in all namespaces. Grant it a ClusterRole with the rule {apiGroups: [%q], resources: [%q], verbs: [%s]}. "+
				"Until then, the sharder does not assign its objects.",
			strings.Join(missing, " nor "), name, gr.Group, gr.Resource, strings.Join(verbs(), ", "))}
	}
	return r, nil
}

// withFallback returns a resource as it is served, or as last served if err prevents an answer; nil means not served.
func (i *specChecker) withFallback(gr v1alpha1.GroupResource, r *resource, err error) *resource {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch last, ok := i.lastServed[gr]; {
	case err != nil && ok:
		return &last
	case r != nil:
		i.lastServed[gr] = *r
	case err == nil:
		delete(i.lastServed, gr)
	}
	return r
}

// lookUp looks up a resource in the versions of its group, the preferred version first; nil means not served.
func (i *specChecker) lookUp(ctx context.Context, gr v1alpha1.GroupResource) (*resource, error) {
	paths := []string{"/api/v1"}
	if gr.Group != "" {
		group := &metav1.APIGroup{}
		if found, err := i.read(ctx, "/apis/"+gr.Group, group); !found {
			return nil, err
		}
		paths = []string{"/apis/" + group.PreferredVersion.GroupVersion}
		for _, version := range group.Versions {
			if path := "/apis/" + version.GroupVersion; !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	for _, path := range paths {
		list := &metav1.APIResourceList{}
		if _, err := i.read(ctx, path, list); err != nil {
			return nil, err
		}
		for _, served := range list.APIResources {
			if served.Name == gr.Resource && hasAll(served.Verbs, verbs()) {
				version := path[strings.LastIndex(path, "/")+1:]
				return &resource{GroupResource: gr, version: version, kind: served.Kind, namespaced: served.Namespaced}, nil
			}
		}
	}
	return nil, nil
}

func hasAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(verb string) bool { return !slices.Contains(have, verb) })
}

func (i *specChecker) read(ctx context.Context, path string, into runtime.Object) (found bool, err error) {
	err = i.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Into(into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// missingVerbs returns the verbs that the sharder may not use.
func (i *specChecker) missingVerbs(ctx context.Context, gr v1alpha1.GroupResource) ([]string, error) {
	var missing []string
	for _, verb := range verbs() {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: gr.Group, Version: "*", Resource: gr.Resource, Verb: verb},
		}}
		answer, err := i.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if !answer.Status.Allowed {
			missing = append(missing, verb)
		}
	}
	return missing, nil
}

// verbs returns what the sharder does with the objects of a ring.
func verbs() []string { return []string{"get", "list", "patch"} }
