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

// addSteps adds the steps that change Deployments, their owners and namespaces, and the confirmations of their release.
func (ss *sources) addSteps(steps stepTable) {
	steps.add(ss.scaleSource, ScaleSource)
	steps.add(ss.changeSource, DeleteSource, CreateSource, LoseSource, LoseProtector)
	steps.add(func(s Step) { ss.forEachSource(s, func(p SourcePlan) { ss.delete("deployments", p.key()) }) }, DeleteSources)
	steps.add(func(s Step) {
		ss.forEachSource(s, func(p SourcePlan) { ss.scaleDeployment(p, p.Replicas*s.To/100) })
	}, ScaleSources)
	steps.add(func(s Step) {
		ss.forEachSource(s, func(p SourcePlan) { ss.setReadiness(p, int32(s.To)) })
	}, SetReadiness)
	steps.add(func(s Step) { ss.forEachSource(s, ss.createSource) }, CreateSources)
	steps.add(func(Step) { ss.delete(apiserver.Namespaces, types.NamespacedName{Name: deletableNamespace}) }, DeleteNamespace)
	steps.add(func(s Step) {
		ss.delete("applications", types.NamespacedName{Namespace: []string{namespace, deletableNamespace}[s.N%2], Name: fmt.Sprint("owner-", s.Who%2)})
	}, DeleteOwner)
	ss.addPolicySteps(steps)
	steps.add(ss.optOutOrDelete, OptOut, DeleteGenerated)
	steps.add(func(Step) {
		for _, plan := range ss.env.scenario.sources() {
			ss.updateObject("deployments", plan.key(), func(o client.Object) { o.SetLabels(plan.labels()) })
		}
	}, OptIn)
	steps.add(ss.annotateConfirmation, ConfirmSource, ConfirmProtector, ConfirmNamespace)
	steps.add(func(Step) { ss.removeConfirmations() }, TakeBack)
	steps.add(func(Step) { ss.delete("configmaps", types.NamespacedName{Namespace: leaseNamespace, Name: grantsName}) }, LoseGrants)
}

func (ss *sources) optOutOrDelete(s Step) {
	if plan, ok := pick(ss.env.scenario.sources(), s.Who); ok && s.What == OptOut {
		ss.updateObject("deployments", plan.key(), func(o client.Object) { o.SetLabels(nil) })
	} else if ok {
		ss.delete("podprotectors", plan.protectorKey())
	}
}

func (ss *sources) delete(resource string, key types.NamespacedName) {
	_, _ = ss.env.cores[0].store.Delete(resource, key, "", user)
}

func protectLabel() map[string]string { return map[string]string{v1alpha1.LabelProtect: "true"} }

// forEachSource calls do for some Deployments, one after another.
func (ss *sources) forEachSource(s Step, do func(SourcePlan)) {
	all := ss.env.scenario.sources()
	ss.env.runAfter(0, func() {
		for i := range min(s.N, len(all)) {
			do(all[(s.Who+i)%len(all)])
			time.Sleep(s.Every)
		}
	})
}

func (ss *sources) updateObject(resource string, key types.NamespacedName, change func(client.Object)) {
	_, _ = ss.env.cores[0].store.Update(resource, key, "", user, func(o client.Object) error {
		change(o)
		return nil
	})
}

func (ss *sources) scaleDeployment(p SourcePlan, to int) {
	ss.updateObject("deployments", p.key(), func(o client.Object) {
		if d, ok := o.(*appsv1.Deployment); ok && *d.Spec.Replicas != int32(to) {
			replicas := int32(to)
			d.Spec.Replicas = &replicas
			d.Generation++
		}
	})
}

// setReadiness sets minReadySeconds of a Deployment without pods. The Deployment of the pods would count them otherwise.
func (ss *sources) setReadiness(p SourcePlan, seconds int32) {
	if p.Name == sourceName {
		return
	}
	ss.updateObject("deployments", p.key(), func(o client.Object) {
		if d, ok := o.(*appsv1.Deployment); ok && d.Spec.MinReadySeconds != seconds {
			d.Spec.MinReadySeconds = seconds
			d.Generation++
		}
	})
}

// createSource creates a Deployment in its namespace, with its owner, unless the Deployment exists.
func (ss *sources) createSource(p SourcePlan) {
	store := ss.env.cores[0].store
	space := types.NamespacedName{Name: p.Namespace}
	_, _ = store.Create(apiserver.Namespaces, namespaceObject(p.Namespace), user)
	if stored, err := store.Get(apiserver.Namespaces, space); err != nil || stored.GetDeletionTimestamp() != nil {
		return // no API server creates an object there
	}
	if p.Name == sourceName {
		_, _ = store.Create("deployments", ss.deployment(), user)
		return
	}
	ss.createPolicyOf(p.Namespace)
	replicas, unavailable := int32(p.Replicas), intstr.FromInt32(0)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.labels()}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Name}}
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable}
	if p.Owner != "" {
		d.OwnerReferences = []metav1.OwnerReference{ss.ensureOwner(p.Namespace, p.Owner)}
	}
	_, _ = store.Create("deployments", d, user)
}

// ensureOwner returns a reference to the owner of a Deployment or a policy, and creates the owner if it does not exist.
func (ss *sources) ensureOwner(space, name string) metav1.OwnerReference {
	store, kind := ss.env.cores[0].store, apiserver.Application()
	_, _ = store.Create("applications", &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}, user)
	ref := metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name}
	if stored, err := store.Get("applications", types.NamespacedName{Namespace: space, Name: name}); err == nil {
		ref.UID = stored.GetUID()
	}
	return ref
}

// namespaceObject has a finalizer, as each namespace of Kubernetes has one in its spec.
func namespaceObject(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"kubernetes"}}}
}

func (ss *sources) populateSources() {
	for i, core := range ss.env.cores {
		core.create(apiserver.Namespaces, namespaceObject(leaseNamespace))
		if i > 0 || !ss.env.scenario.Generated {
			core.create(apiserver.Namespaces, namespaceObject(namespace))
		}
	}
	for _, plan := range ss.env.scenario.Brake.Policies {
		core := ss.env.cores[0]
		_, _ = core.store.Create(apiserver.Namespaces, namespaceObject(plan.Namespace), user)
		ss.createPolicy(plan, v1alpha1.FinalizerPolicy)
	}
	for _, plan := range ss.env.scenario.sources() {
		ss.createSource(plan)
	}
}

// annotateConfirmation annotates an object with a confirmation, either permanently or for a while.
func (ss *sources) annotateConfirmation(s Step) {
	value := "true"
	if s.For > 0 {
		value = time.Now().Add(s.For).UTC().Format(time.RFC3339)
	}
	plan, ok := pick(ss.env.scenario.sources(), s.Who)
	switch {
	case !ok:
	case s.What == ConfirmSource:
		ss.updateObject("deployments", plan.key(), setConfirmation(value))
	case s.What == ConfirmProtector:
		ss.updateObject("podprotectors", plan.protectorKey(), setConfirmation(value))
	default:
		ss.updateObject(apiserver.Namespaces, types.NamespacedName{Name: plan.Namespace}, setConfirmation(value))
	}
}

// removeConfirmations removes all confirmations.
func (ss *sources) removeConfirmations() {
	for _, resource := range []string{"deployments", "podprotectors", apiserver.Namespaces} {
		objects, _ := ss.env.cores[0].store.List(resource, "")
		for _, o := range objects {
			ss.updateObject(resource, client.ObjectKeyFromObject(o), setConfirmation(""))
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
