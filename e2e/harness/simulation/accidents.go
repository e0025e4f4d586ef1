package simulation

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// user is the actor that changes objects on purpose or by accident.
const user = "user"

func (p SourcePlan) key() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// protectorOf returns the key of the protector of a Deployment.
func protectorOf(source types.NamespacedName) types.NamespacedName {
	name := policy.ProtectorName(policy.Ref{Group: "apps", Kind: "Deployment", Name: source.Name})
	return types.NamespacedName{Namespace: source.Namespace, Name: name}
}

func (p SourcePlan) protectorKey() types.NamespacedName { return protectorOf(p.key()) }

// applySourceStep changes Deployments, their owners and namespaces, and the confirmations of their release.
func (sim *simulator) applySourceStep(s Step) {
	switch s.What {
	case DeleteSources:
		sim.forEachSource(s, func(p SourcePlan) { _, _ = sim.cores[0].store.Delete("deployments", p.key(), "", user) })
	case ScaleSources:
		sim.forEachSource(s, func(p SourcePlan) { sim.scaleDeployment(p, p.Replicas*s.To/100) })
	case CreateSources:
		sim.forEachSource(s, sim.createSource)
	case DeleteNamespace:
		_, _ = sim.cores[0].store.Delete(apiserver.Namespaces, types.NamespacedName{Name: deletableNamespace}, "", user)
	case DeleteOwner:
		owner := types.NamespacedName{Namespace: []string{namespace, deletableNamespace}[s.N%2], Name: fmt.Sprint("owner-", s.Who%2)}
		_, _ = sim.cores[0].store.Delete("applications", owner, "", user)
	case OptOut, DeleteGenerated:
		if plan, ok := pick(sim.scenario.sources(), s.Who); ok && s.What == OptOut {
			sim.updateObject("deployments", plan.key(), func(o client.Object) { o.SetLabels(nil) })
		} else if ok {
			_, _ = sim.cores[0].store.Delete("podprotectors", plan.protectorKey(), "", user)
		}
	case OptIn:
		for _, plan := range sim.scenario.sources() {
			sim.updateObject("deployments", plan.key(), func(o client.Object) { o.SetLabels(protectLabel()) })
		}
	case ConfirmSource, ConfirmProtector, ConfirmNamespace:
		sim.annotateConfirmation(s)
	case TakeBack:
		sim.removeConfirmations()
	case LoseGrants:
		_, _ = sim.cores[0].store.Delete("configmaps", types.NamespacedName{Namespace: leaseNamespace, Name: grantsName}, "", user)
	}
}

func protectLabel() map[string]string { return map[string]string{v1alpha1.LabelProtect: "true"} }

// forEachSource calls do for some Deployments, one after another.
func (sim *simulator) forEachSource(s Step, do func(SourcePlan)) {
	all := sim.scenario.sources()
	sim.runAfter(0, func() {
		for i := range min(s.N, len(all)) {
			do(all[(s.Who+i)%len(all)])
			time.Sleep(s.Every)
		}
	})
}

func (sim *simulator) updateObject(resource string, key types.NamespacedName, change func(client.Object)) {
	_, _ = sim.cores[0].store.Update(resource, key, "", user, func(o client.Object) error {
		change(o)
		return nil
	})
}

func (sim *simulator) scaleDeployment(p SourcePlan, to int) {
	sim.updateObject("deployments", p.key(), func(o client.Object) {
		if d, ok := o.(*appsv1.Deployment); ok && *d.Spec.Replicas != int32(to) {
			replicas := int32(to)
			d.Spec.Replicas = &replicas
			d.Generation++
		}
	})
}

// createSource creates a Deployment in its namespace, with its owner, unless the Deployment exists.
func (sim *simulator) createSource(p SourcePlan) {
	store := sim.cores[0].store
	space := types.NamespacedName{Name: p.Namespace}
	_, _ = store.Create(apiserver.Namespaces, namespaceObject(p.Namespace), user)
	if stored, err := store.Get(apiserver.Namespaces, space); err != nil || stored.GetDeletionTimestamp() != nil {
		return // no API server creates an object there
	}
	if p.Name == sourceName {
		_, _ = store.Create("deployments", sim.deployment(), user)
		return
	}
	replicas, unavailable := int32(p.Replicas), intstr.FromInt32(0)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: protectLabel()}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Name}}
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable}
	if p.Owner != "" {
		d.OwnerReferences = []metav1.OwnerReference{sim.ensureOwner(p)}
	}
	_, _ = store.Create("deployments", d, user)
}

// ensureOwner returns a reference to the owner of a Deployment, and creates the owner if it does not exist.
func (sim *simulator) ensureOwner(p SourcePlan) metav1.OwnerReference {
	store, kind := sim.cores[0].store, apiserver.Application()
	_, _ = store.Create("applications", &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Owner}}, user)
	ref := metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: p.Owner}
	if stored, err := store.Get("applications", types.NamespacedName{Namespace: p.Namespace, Name: p.Owner}); err == nil {
		ref.UID = stored.GetUID()
	}
	return ref
}

// namespaceObject has a finalizer, as each namespace of Kubernetes has one in its spec.
func namespaceObject(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"kubernetes"}}}
}

func (sim *simulator) populateSources() {
	for i, core := range sim.cores {
		core.create(apiserver.Namespaces, namespaceObject(leaseNamespace))
		if i > 0 || !sim.scenario.Generated {
			core.create(apiserver.Namespaces, namespaceObject(namespace))
		}
	}
	for _, plan := range sim.scenario.sources() {
		sim.createSource(plan)
	}
}

// annotateConfirmation annotates an object with a confirmation, either permanently or for a while.
func (sim *simulator) annotateConfirmation(s Step) {
	value := "true"
	if s.For > 0 {
		value = time.Now().Add(s.For).UTC().Format(time.RFC3339)
	}
	plan, ok := pick(sim.scenario.sources(), s.Who)
	switch {
	case !ok:
	case s.What == ConfirmSource:
		sim.updateObject("deployments", plan.key(), setConfirmation(value))
	case s.What == ConfirmProtector:
		sim.updateObject("podprotectors", plan.protectorKey(), setConfirmation(value))
	default:
		sim.updateObject(apiserver.Namespaces, types.NamespacedName{Name: plan.Namespace}, setConfirmation(value))
	}
}

// confirmHeldDecreases confirms at the end every decrease that is still held. It waits until the decreases are released and the namespace is
// deleted.
func (sim *simulator) confirmHeldDecreases() error {
	if len(sim.scenario.Brake.Sources) == 0 {
		return nil
	}
	for _, name := range []string{namespace, deletableNamespace} {
		sim.updateObject(apiserver.Namespaces, types.NamespacedName{Name: name}, setConfirmation("true"))
	}
	return sim.waitUntil(convergenceTime, func() string {
		space, err := sim.cores[0].store.Get(apiserver.Namespaces, types.NamespacedName{Name: deletableNamespace})
		if err == nil && space.GetDeletionTimestamp() != nil {
			return "namespace " + deletableNamespace + " is still being deleted"
		}
		return sim.calmProblem()
	})
}

// removeConfirmations removes all confirmations.
func (sim *simulator) removeConfirmations() {
	for _, resource := range []string{"deployments", "podprotectors", apiserver.Namespaces} {
		objects, _ := sim.cores[0].store.List(resource, "")
		for _, o := range objects {
			sim.updateObject(resource, client.ObjectKeyFromObject(o), setConfirmation(""))
		}
	}
}

// setConfirmation sets the confirmation of an object. An empty value removes it.
func setConfirmation(value string) func(client.Object) {
	return func(o client.Object) {
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.AnnotationConfirmRelease] = value
		if value == "" {
			delete(annotations, v1alpha1.AnnotationConfirmRelease)
		}
		o.SetAnnotations(annotations)
	}
}
