package play

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// addSteps adds the steps that change Deployments, their owners and namespaces, and the confirmations of their release.
func (ss *sources) addSteps(steps stepTable) {
	steps.add(ss.scaleSource, scenario.ScaleSource)
	steps.add(ss.changeSource, scenario.DeleteSource, scenario.CreateSource, scenario.LoseSource, scenario.LoseProtector)
	steps.add(func(s scenario.Step) {
		ss.forEachSource(s, func(p scenario.SourcePlan) { ss.delete("deployments", p.Key()) })
	}, scenario.DeleteSources)
	steps.add(func(s scenario.Step) {
		ss.forEachSource(s, func(p scenario.SourcePlan) { ss.scaleDeployment(p, p.Replicas*s.To/100) })
	}, scenario.ScaleSources)
	steps.add(func(s scenario.Step) {
		ss.forEachSource(s, func(p scenario.SourcePlan) { ss.setReadiness(p, int32(s.To)) })
	}, scenario.SetReadiness)
	steps.add(func(s scenario.Step) { ss.forEachSource(s, ss.createSource) }, scenario.CreateSources)
	steps.add(func(scenario.Step) {
		ss.delete(apiserver.Namespaces, types.NamespacedName{Name: scenario.DeletableNamespace})
	}, scenario.DeleteNamespace)
	steps.add(func(s scenario.Step) {
		ss.delete("applications", types.NamespacedName{
			Namespace: []string{scenario.Namespace, scenario.DeletableNamespace}[s.N%2], Name: fmt.Sprint("owner-", s.Who%2),
		})
	}, scenario.DeleteOwner)
	ss.addPolicySteps(steps)
	steps.add(ss.optOutOrDelete, scenario.OptOut, scenario.DeleteGenerated)
	steps.add(func(scenario.Step) {
		for _, plan := range ss.env.scenario.Sources() {
			ss.updateObject("deployments", plan.Key(), func(o client.Object) { o.SetLabels(plan.Labels()) })
		}
	}, scenario.OptIn)
	steps.add(ss.annotateConfirmation, scenario.ConfirmSource, scenario.ConfirmProtector, scenario.ConfirmNamespace)
	steps.add(func(scenario.Step) { ss.removeConfirmations() }, scenario.TakeBack)
	steps.add(func(scenario.Step) {
		ss.delete("configmaps", types.NamespacedName{Namespace: scenario.LeaseNamespace, Name: judge.GrantsName})
	}, scenario.LoseGrants)
}

func (ss *sources) optOutOrDelete(s scenario.Step) {
	if plan, ok := pick(ss.env.scenario.Sources(), s.Who); ok && s.What == scenario.OptOut {
		ss.updateObject("deployments", plan.Key(), func(o client.Object) { o.SetLabels(nil) })
	} else if ok {
		ss.delete("podprotectors", plan.ProtectorKey())
	}
}

func (ss *sources) delete(resource string, key types.NamespacedName) {
	_, _ = ss.env.cores[0].store.Delete(resource, key, "", scenario.User)
}

// forEachSource calls do for some Deployments, one after another.
func (ss *sources) forEachSource(s scenario.Step, do func(scenario.SourcePlan)) {
	all := ss.env.scenario.Sources()
	ss.env.runAfter(0, func() {
		for i := range min(s.N, len(all)) {
			do(all[(s.Who+i)%len(all)])
			time.Sleep(s.Every)
		}
	})
}

func (ss *sources) updateObject(resource string, key types.NamespacedName, change func(client.Object)) {
	_, _ = ss.env.cores[0].store.Update(resource, key, "", scenario.User, func(o client.Object) error {
		change(o)
		return nil
	})
}

func (ss *sources) scaleDeployment(p scenario.SourcePlan, to int) {
	ss.updateObject("deployments", p.Key(), func(o client.Object) {
		if d, ok := o.(*appsv1.Deployment); ok && *d.Spec.Replicas != int32(to) {
			replicas := int32(to)
			d.Spec.Replicas = &replicas
			d.Generation++
		}
	})
}

// setReadiness sets minReadySeconds of a Deployment without pods. The Deployment of the pods would count them otherwise.
func (ss *sources) setReadiness(p scenario.SourcePlan, seconds int32) {
	if p.Name == scenario.SourceName {
		return
	}
	ss.updateObject("deployments", p.Key(), func(o client.Object) {
		if d, ok := o.(*appsv1.Deployment); ok && d.Spec.MinReadySeconds != seconds {
			d.Spec.MinReadySeconds = seconds
			d.Generation++
		}
	})
}

// createSource creates a Deployment in its namespace, with its owner, unless the Deployment exists.
func (ss *sources) createSource(p scenario.SourcePlan) {
	store := ss.env.cores[0].store
	space := types.NamespacedName{Name: p.Namespace}
	_, _ = store.Create(apiserver.Namespaces, scenario.NamespaceObject(p.Namespace), scenario.User)
	if stored, err := store.Get(apiserver.Namespaces, space); err != nil || stored.GetDeletionTimestamp() != nil {
		return // no API server creates an object there
	}
	if p.Name == scenario.SourceName {
		_, _ = store.Create("deployments", ss.deployment(), scenario.User)
		return
	}
	ss.createPolicyOf(p.Namespace)
	replicas, unavailable := int32(p.Replicas), intstr.FromInt32(0)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels()}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Name}}
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable}
	if p.Owner != "" {
		d.OwnerReferences = []metav1.OwnerReference{ss.ensureOwner(p.Namespace, p.Owner)}
	}
	_, _ = store.Create("deployments", d, scenario.User)
}

// ensureOwner returns a reference to the owner of a Deployment or a policy, and creates the owner if it does not exist.
func (ss *sources) ensureOwner(space, name string) metav1.OwnerReference {
	store, kind := ss.env.cores[0].store, apiserver.Application()
	_, _ = store.Create("applications", &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}, scenario.User)
	ref := metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name}
	if stored, err := store.Get("applications", types.NamespacedName{Namespace: space, Name: name}); err == nil {
		ref.UID = stored.GetUID()
	}
	return ref
}

func (ss *sources) populateSources() {
	for i, core := range ss.env.cores {
		core.create(apiserver.Namespaces, scenario.NamespaceObject(scenario.LeaseNamespace))
		if i > 0 || !ss.env.scenario.Generated {
			core.create(apiserver.Namespaces, scenario.NamespaceObject(scenario.Namespace))
		}
	}
	for _, plan := range ss.env.scenario.Brake.Policies {
		core := ss.env.cores[0]
		_, _ = core.store.Create(apiserver.Namespaces, scenario.NamespaceObject(plan.Namespace), scenario.User)
		ss.createPolicy(plan, v1alpha1.FinalizerPolicy)
	}
	for _, plan := range ss.env.scenario.Sources() {
		ss.createSource(plan)
	}
}

// annotateConfirmation annotates an object with a confirmation, either permanently or for a while.
func (ss *sources) annotateConfirmation(s scenario.Step) {
	value := "true"
	if s.For > 0 {
		value = time.Now().Add(s.For).UTC().Format(time.RFC3339)
	}
	plan, ok := pick(ss.env.scenario.Sources(), s.Who)
	switch {
	case !ok:
	case s.What == scenario.ConfirmSource:
		ss.updateObject("deployments", plan.Key(), scenario.SetConfirmation(value))
	case s.What == scenario.ConfirmProtector:
		ss.updateObject("podprotectors", plan.ProtectorKey(), scenario.SetConfirmation(value))
	default:
		ss.updateObject(apiserver.Namespaces, types.NamespacedName{Name: plan.Namespace}, scenario.SetConfirmation(value))
	}
}

// removeConfirmations removes all confirmations.
func (ss *sources) removeConfirmations() {
	for _, resource := range []string{"deployments", "podprotectors", apiserver.Namespaces} {
		objects, _ := ss.env.cores[0].store.List(resource, "")
		for _, o := range objects {
			ss.updateObject(resource, client.ObjectKeyFromObject(o), scenario.SetConfirmation(""))
		}
	}
}

// sources are the Deployments of the first core that request protection. It creates, changes and confirms them, as users do.
type sources struct {
	env *environment
}

// changeSource deletes or recreates the Deployment as a user, or makes the Deployment or its protector vanish. No client sees a vanishing
// object terminate.
func (ss *sources) changeSource(s scenario.Step) {
	store, key := ss.env.cores[0].store, types.NamespacedName{Namespace: scenario.Namespace, Name: scenario.SourceName}
	switch s.What {
	case scenario.DeleteSource:
		_, _ = store.Delete("deployments", key, "", scenario.User)
	case scenario.CreateSource:
		_, _ = store.Create("deployments", ss.deployment(), scenario.User)
	case scenario.LoseSource:
		store.Lose("deployments", key)
	case scenario.LoseProtector:
		store.Lose("podprotectors", scenario.ProtectorOf(key))
	}
}

func (ss *sources) deployment() *appsv1.Deployment {
	replicas, unavailable := int32(ss.env.scenario.Pods), intstr.FromInt32(int32(ss.env.scenario.Pods)/3)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: scenario.Namespace, Name: scenario.SourceName, Labels: map[string]string{v1alpha1.LabelProtect: "true"},
	}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable}
	return d
}

func (ss *sources) scaleSource(s scenario.Step) {
	core := ss.env.cores[0]
	key := types.NamespacedName{Namespace: scenario.Namespace, Name: scenario.SourceName}
	_, _ = core.store.Update("deployments", key, "", "user", func(o client.Object) error {
		if d, ok := o.(*appsv1.Deployment); ok {
			replicas := int32(s.N)
			d.Spec.Replicas = &replicas
			d.Generation++
		}
		return nil
	})
}
