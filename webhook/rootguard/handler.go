package rootguard

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// Handler answers reviews about deletions in clusters that are cores, have cells, or both.
type Handler struct {
	mode       rootguard.Mode
	onCascade  v1alpha1.CascadePolicy
	cores      map[string]*coreCluster
	protection Protection
	metrics    *reviews.Metrics
	log        logr.Logger
	now        func() time.Time
}

// coreCluster holds the clients with which the handler reads a core cluster.
type coreCluster struct {
	reader client.Reader
	owners *ownerFinder
}

// Review answers before ctx ends. cluster is webhookconfig.RootGuardPath without its prefix.
func (h *Handler) Review(ctx context.Context, cluster string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	began := time.Now()
	kind, answer := h.answer(ctx, cluster, request)
	if !ptr.Deref(request.DryRun, false) {
		h.metrics.Observe(ctx, kind, string(answer.Reason), time.Since(began))
		if answer.Text != "" {
			h.log.Info("Reviewed deletion of an object that floors depend on", "reason", answer.Reason, "cluster", cluster,
				"kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name, "user", request.UserInfo.Username,
				"floors", answer.Floors, "shares", answer.Shares, "pods", answer.Pods)
		}
	}
	return responseOf(answer)
}

// answer also returns the class of the object. The number of classes is bounded, so that a client cannot create time
// series.
func (h *Handler) answer(ctx context.Context, cluster string, request *admissionv1.AdmissionRequest) (class string, answer rootguard.Answer) {
	class = reviews.Unknown
	defer func() {
		if fault := recover(); fault != nil {
			h.log.Error(fmt.Errorf("panic: %v", fault), "Allowed deletion without review after a panic", "cluster", cluster,
				"resource", request.Resource.String(), "stack", string(debug.Stack()))
			answer = rootguard.Answer{Reason: Failed}
		}
	}()
	if request.Operation != admissionv1.Delete || request.SubResource != "" || len(request.OldObject.Raw) == 0 {
		return class, rootguard.Answer{Reason: Ignored}
	}
	core, cells, ok := webhookconfig.ParseRootGuardPath(cluster)
	if !ok || core != "" && h.cores[core] == nil || slices.ContainsFunc(cells, func(cell string) bool { return !h.protection.HasCell(cell) }) {
		return class, rootguard.Answer{Reason: UnknownCluster}
	}
	object, err := rootguard.ReadObject(schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind},
		schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Resource}, request.OldObject.Raw)
	if err != nil {
		h.log.Info("Allowed deletion: could not decode the object", "cluster", cluster, "reason", err.Error())
		return class, rootguard.Answer{Reason: Invalid}
	}
	question := &rootguard.Deletion{
		Mode: h.mode, Cluster: rootguard.ClusterIdentity{Core: core, Cells: cells}, Object: object,
		User: request.UserInfo.Username, Groups: request.UserInfo.Groups, DryRun: ptr.Deref(request.DryRun, false), OnCascade: h.onCascade, Now: h.now(),
	}
	answer = h.decide(ctx, question)
	if answer.Reason == NotReady && question.DryRun { // no warning would mean that no floor depends on the object
		answer.Text = fmt.Sprintf("Breakwater cannot determine which floors depend on %s: it has not read all PodProtectors yet; try again", object)
	}
	return object.Class(), answer
}

func (h *Handler) decide(ctx context.Context, q *rootguard.Deletion) rootguard.Answer {
	if reason := q.AllowedReason(); reason != "" {
		return rootguard.Answer{Reason: reason}
	}
	floors, unread := h.floors(ctx, q)
	if slices.Contains(unread, q.Cluster.Core) {
		return rootguard.Answer{Reason: NotReady}
	}
	answer := q.Decide(floors)
	if answer.Reason == rootguard.NoFloor && len(unread) > 0 {
		answer.Reason = NotReady
	}
	if answer.Text == "" || q.Object.Namespace == "" {
		return answer
	}
	// Read the namespace only for an answer that a confirmation would change.
	annotations, err := h.namespaceAnnotations(ctx, q.Cluster, q.Object.Namespace)
	if err != nil {
		h.log.Info("Could not read namespace, ignoring its annotations", "namespace", q.Object.Namespace, "reason", err.Error())
		return answer
	}
	q.Object.NamespaceAnnotations = annotations
	return q.Decide(floors)
}

// floors returns the floors that may depend on the object. An object affects only PodProtectors of its own namespace.
func (h *Handler) floors(ctx context.Context, q *rootguard.Deletion) (floors []rootguard.Floor, unread []string) {
	namespace := q.Object.Namespace
	if q.Object.Class() == "Namespace" {
		namespace = q.Object.Name
	}
	unread = h.protection.EachProtector(namespace, func(core string, p *v1alpha1.PodProtector) {
		if floor, ok := rootguard.FloorOf(core, p, q.Cluster, q.Now); ok {
			floors = append(floors, floor)
		}
	})
	if q.Cluster.Core != "" {
		h.addOwners(ctx, q, floors)
	}
	slices.SortFunc(floors, func(a, b rootguard.Floor) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	return floors, unread
}

// addOwners adds the owners to floors whose sources the object may own, or objects of the kind that it defines.
func (h *Handler) addOwners(ctx context.Context, q *rootguard.Deletion, floors []rootguard.Floor) {
	finder := h.cores[q.Cluster.Core].owners
	if !finder.isOwnerKind(q.Object.Resource) && !finder.isOwnerKind(q.Object.DefinesResource) {
		return
	}
	kinds := map[schema.GroupKind]bool{}
	for i := range floors {
		if source := floors[i].Source; floors[i].Local && source != nil {
			kinds[source.GroupKind()] = true
		}
	}
	found, err := finder.ofSources(ctx, q.Object.Namespace, kinds)
	if err != nil {
		h.log.Info("Could not read all owners of sources", "core", q.Cluster.Core, "reason", err.Error())
	}
	for i := range floors {
		if source := floors[i].Source; floors[i].Local && source != nil {
			floors[i].Owners = found[*source]
		}
	}
}
