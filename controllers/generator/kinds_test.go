package generator

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func (p *fixture) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.namespace, Name: name, Labels: map[string]string{v1alpha1.LabelProtect: "true"}}
}

func podTemplate(app map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
}

func (p *fixture) statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	app := map[string]string{"app": name}
	return &appsv1.StatefulSet{ObjectMeta: p.objectMeta(name), Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app}, Template: podTemplate(app), MinReadySeconds: 3}}
}

func (p *fixture) replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	app := map[string]string{"app": name}
	return &appsv1.ReplicaSet{ObjectMeta: p.objectMeta(name), Spec: appsv1.ReplicaSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app}, Template: podTemplate(app)}}
}

func (p *fixture) replicationController(name string, replicas int32) *corev1.ReplicationController {
	app, pods := map[string]string{"app": name}, podTemplate(map[string]string{"app": name})
	return &corev1.ReplicationController{ObjectMeta: p.objectMeta(name), Spec: corev1.ReplicationControllerSpec{
		Replicas: &replicas, Selector: app, Template: &pods}}
}

func TestBuiltInKindsAreSources(t *testing.T) {
	scale := func(to int32) func(client.Object) {
		return func(object client.Object) {
			switch o := object.(type) {
			case *appsv1.StatefulSet:
				o.Spec.Replicas = &to
			case *appsv1.ReplicaSet:
				o.Spec.Replicas = &to
			case *corev1.ReplicationController:
				o.Spec.Replicas = &to
			}
		}
	}
	for kind, c := range map[string]struct {
		make              func(*fixture) client.Object
		floor, afterScale int32
	}{
		"StatefulSet":           {func(p *fixture) client.Object { return p.statefulSet("web", 10) }, 9, 19},
		"ReplicaSet":            {func(p *fixture) client.Object { return p.replicaSet("web", 10) }, 8, 15},
		"ReplicationController": {func(p *fixture) client.Object { return p.replicationController("web", 10) }, 8, 15},
	} {
		t.Run(kind, func(t *testing.T) {
			p := newFixture(t)
			account := p.account(p.rules())
			g := p.startAs(account)
			source, name := c.make(p), strings.ToLower(kind)+"-web"
			p.create(source)
			protector := p.waitForProtector(name, "the PodProtector has the floor of the strategy", func(got *v1alpha1.PodProtector) bool {
				return hasFloor(c.floor)(got) && got.Spec.Selector.MatchLabels["app"] == "web" && isSourceFound(got) && hasProtectorFinalizer(got)
			})
			edit(p, source, scale(20))
			p.waitForProtector(name, "the floor follows the source", hasFloor(c.afterScale))

			// No garbage collector runs here, for which a ReplicationController would wait by default.
			p.delete(source, client.PropagationPolicy(metav1.DeletePropagationBackground))
			p.waitUntilDeleted(source)
			p.waitUntilDeleted(protector)

			source = c.make(p)
			p.create(source)
			p.waitForProtector(name, "there is another ReplicaSet", isSourceFound)
			g.stop()
			p.delete(source, client.PropagationPolicy(metav1.DeletePropagationBackground))
			edit(p, source, func(o client.Object) { o.SetFinalizers(nil) })
			p.waitUntilDeleted(source)
			again := p.startAs(account)
			got := p.waitForProtector(name, "the PodProtector stays when its source vanishes", isSourceVanished)
			if got.Spec.MinAvailable.IntVal != c.floor || got.DeletionTimestamp != nil {
				t.Errorf("protector is not in force:\n%s", dump(got))
			}
			p.waitForVanishedSources(again, 1)
		})
	}
}

func TestReplicaSetOfDeploymentHasNoProtector(t *testing.T) {
	p := newFixture(t)
	p.start()
	web := p.deployment("web", nil)
	p.create(web)
	owned := p.replicaSet("web-1", 4)
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: web.UID, Controller: ptr.To(true)}}
	p.create(owned)
	p.create(p.replicaSet("free", 4))

	// A later object proves that the generator has processed the earlier one.
	p.waitForProtector("replicaset-free", "a ReplicaSet without a controller has a PodProtector", hasFloor(3))
	p.waitUntilDeleted(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "replicaset-web-1"}})
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(owned), owned); err != nil || len(owned.Finalizers) != 0 {
		t.Errorf("protector was changed: %v\n%s", err, dump(owned))
	}

	free := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "free"}}
	edit(p, free, func(s *appsv1.ReplicaSet) {
		s.OwnerReferences = owned.OwnerReferences
		s.Spec.Replicas = ptr.To(int32(8))
	})
	p.waitForProtector("replicaset-free", "an adopted ReplicaSet keeps its PodProtector", hasFloor(6))
}
