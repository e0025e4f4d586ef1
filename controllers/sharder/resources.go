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
	// whole is true if mains has all such resources that the ring names: if none of them controls an object, no object of the ring does.
	whole bool
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

// inspector checks which parts of a ring's spec can be applied.
type inspector struct {
	kubernetes.Interface

	mu sync.Mutex
	// known are resources as they were last served, for when the API server does not answer.
	known map[v1alpha1.GroupResource]resource
}

func newInspector(of kubernetes.Interface) *inspector {
	return &inspector{Interface: of, known: map[v1alpha1.GroupResource]resource{}}
}

// inspect checks which of a ring's resources are served and permitted. The ring continues with those resources alone.
func (i *inspector) inspect(ctx context.Context, spec *v1alpha1.ClusterRingSpec) (layout, []problem) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if _, err := metav1.LabelSelectorAsSelector(spec.NamespaceSelector.LabelSelector()); err != nil {
		return layout{}, []problem{{v1alpha1.ReasonInvalidSelector, fmt.Sprintf("Correct spec.namespaceSelector: %v.", err)}}
	}
	all, problems := layout{}, []problem(nil)
	find := func(of v1alpha1.GroupResource) *resource {
		found, p := i.find(ctx, of)
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
		for _, of := range named.ControlledResources {
			r, known := controlled[of]
			if !known {
				if r = find(of); r != nil {
					r.whole = true
					all.controlled = append(all.controlled, r)
				}
				controlled[of] = r
			}
			switch {
			case r == nil:
			case main == nil:
				r.whole = false
			default:
				r.mains = append(r.mains, main)
			}
		}
	}
	return all, problems
}

// find looks up a resource, or returns a problem. If the API server does not answer, the last answer stands: a list of the objects detects
// a change soon enough.
func (i *inspector) find(ctx context.Context, of v1alpha1.GroupResource) (*resource, *problem) {
	name := schema.GroupResource{Group: of.Group, Resource: of.Resource}.String()
	r, err := i.served(ctx, of)
	if r = i.recall(of, r, err); r == nil && err != nil {
		return nil, &problem{v1alpha1.ReasonResourceNotServed, fmt.Sprintf(
			"The apiserver does not tell whether it serves %s, which is looked at again: %v.", name, err)}
	}
	if r == nil {
		return nil, &problem{v1alpha1.ReasonResourceNotServed, fmt.Sprintf(
			"The apiserver serves no %s that can be read, listed and patched: install what serves it, or correct spec.resources. "+
				"Its objects are not assigned until then.", name)}
	}
	if missing, err := i.missing(ctx, of); err == nil && len(missing) > 0 {
		return nil, &problem{v1alpha1.ReasonResourceForbidden, fmt.Sprintf(
			"The sharder may not %s %s in all namespaces. Grant it by a ClusterRole the rule {apiGroups: [%q], resources: [%q], verbs: [%s]}. "+
				"Objects of it are not assigned until then.",
			strings.Join(missing, " nor "), name, of.Group, of.Resource, strings.Join(verbs(), ", "))}
	}
	return r, nil
}

// recall returns a resource as it is served, or as last served if err prevents an answer; nil means not served.
func (i *inspector) recall(of v1alpha1.GroupResource, r *resource, err error) *resource {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch known, ok := i.known[of]; {
	case err != nil && ok:
		return &known
	case r != nil:
		i.known[of] = *r
	case err == nil:
		delete(i.known, of)
	}
	return r
}

// served looks up a resource in the versions of its group, the preferred version first; nil means not served.
func (i *inspector) served(ctx context.Context, of v1alpha1.GroupResource) (*resource, error) {
	paths := []string{"/api/v1"}
	if of.Group != "" {
		group := &metav1.APIGroup{}
		if found, err := i.read(ctx, "/apis/"+of.Group, group); !found {
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
			if served.Name == of.Resource && hasAll(served.Verbs, verbs()) {
				version := path[strings.LastIndex(path, "/")+1:]
				return &resource{GroupResource: of, version: version, kind: served.Kind, namespaced: served.Namespaced}, nil
			}
		}
	}
	return nil, nil
}

func hasAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(verb string) bool { return !slices.Contains(have, verb) })
}

func (i *inspector) read(ctx context.Context, path string, into runtime.Object) (found bool, err error) {
	err = i.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Into(into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// missing returns the verbs that the sharder may not use.
func (i *inspector) missing(ctx context.Context, of v1alpha1.GroupResource) ([]string, error) {
	var missing []string
	for _, verb := range verbs() {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: of.Group, Version: "*", Resource: of.Resource, Verb: verb},
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
