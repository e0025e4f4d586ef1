package generator

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// unidentifications are changes by a user or a tool after which the metadata of a protector of a kind that is not built in do not identify its source.
func unidentifications() map[string]func(*v1alpha1.PodProtector) {
	return map[string]func(*v1alpha1.PodProtector){
		"the label of the kind removed":   func(got *v1alpha1.PodProtector) { delete(got.Labels, v1alpha1.LabelSourceKind) },
		"the label of the kind changed":   func(got *v1alpha1.PodProtector) { got.Labels[v1alpha1.LabelSourceKind] = "Deployment" },
		"the kind in lower case":          func(got *v1alpha1.PodProtector) { got.Labels[v1alpha1.LabelSourceKind] = "rollout" },
		"the kind in upper case":          func(got *v1alpha1.PodProtector) { got.Labels[v1alpha1.LabelSourceKind] = "ROLLOUT" },
		"all labels removed":              func(got *v1alpha1.PodProtector) { got.Labels = nil },
		"all annotations removed":         func(got *v1alpha1.PodProtector) { got.Annotations = nil },
		"all labels, annotations removed": func(got *v1alpha1.PodProtector) { got.Labels, got.Annotations = nil, nil },
		"another name":                    func(got *v1alpha1.PodProtector) { got.Annotations[v1alpha1.AnnotationSourceName] = "shop" },
		"another group":                   func(got *v1alpha1.PodProtector) { got.Annotations[v1alpha1.AnnotationSourceAPIVersion] = "apps/v1" },
	}
}

// The name of the protector of a kind that is not built in may be that of another client's.
func TestForeignProtectorWithTheNameForACustomKindIsReported(t *testing.T) {
	p := newFixture(t)
	p.installCRD("rollouts")
	p.startAs(p.account(p.rulesFor("rollouts.argoproj.io")))
	theirs := &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: rolloutProtector},
		Spec:       v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "mine"}}, MinAvailable: v1alpha1.Pods(3)},
	}
	p.create(theirs)
	p.create(p.policyForKinds("", rolloutKind()))
	p.create(p.rollout("10"))
	p.waitForEvent("Rollout/web Warning NameTaken: The generator did not create PodProtector " + rolloutProtector)
	if got := p.waitForProtector(rolloutProtector, "it exists", hasFloor(3)); got.UID != theirs.UID || len(got.Finalizers) > 0 {
		t.Errorf("the protector was changed:\n%s", dump(got))
	}
}

func TestProtectorThatLostTheKindOfItsSourceIsRepairedAndReleased(t *testing.T) {
	p := newFixture(t)
	p.installCRD("rollouts")
	p.startAs(p.account(p.rulesFor("rollouts.argoproj.io")))
	p.create(p.policyForKinds("", rolloutKind()))
	for claim, change := range unidentifications() {
		t.Run(claim, func(t *testing.T) {
			p := &fixture{Client: p.Client, t: t, namespace: p.namespace}
			web := p.rollout("10")
			p.create(web)
			want := p.waitForProtector(rolloutProtector, "the PodProtector is created", hasPolicyAndShare("ProtectionPolicy/shop", "25%"))
			edited := want.DeepCopy()
			edit(p, edited, change)
			got := p.waitForProtector(rolloutProtector, "the drift is corrected", func(got *v1alpha1.PodProtector) bool {
				return got.ResourceVersion != edited.ResourceVersion && cmp.Equal(got.Spec, want.Spec) && maps.Equal(got.Labels, want.Labels) &&
					maps.Equal(got.Annotations, want.Annotations) && isSourceFound(got)
			})
			if got.UID != want.UID {
				t.Errorf("got another protector, want the same:\n%s", dump(got))
			}
			p.delete(web)
			p.waitUntilDeleted(got)
			p.waitUntilDeleted(web)
		})
	}
}

// No generator runs when the protector loses the kind, or when its source is deleted or lost. A new one has no earlier state of the protector.
func TestUnidentifiedProtectorIsReleasedOnlyWithItsSource(t *testing.T) {
	for claim, c := range map[string]struct {
		end  func(p *fixture, web *unstructured.Unstructured)
		want func(p *fixture, web *unstructured.Unstructured, protector *v1alpha1.PodProtector)
	}{
		"a user deletes the source": {
			func(p *fixture, web *unstructured.Unstructured) { p.delete(web) },
			func(p *fixture, web *unstructured.Unstructured, protector *v1alpha1.PodProtector) {
				p.waitUntilDeleted(protector)
				p.waitUntilDeleted(web)
			},
		},
		"the source vanishes": {
			func(p *fixture, web *unstructured.Unstructured) {
				p.delete(web)
				edit(p, web, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
				p.waitUntilDeleted(web)
			},
			func(p *fixture, _ *unstructured.Unstructured, before *v1alpha1.PodProtector) {
				got := p.waitForProtector(rolloutProtector, "the condition reports that the source vanished", isSourceVanished)
				if got.UID != before.UID || got.DeletionTimestamp != nil || !hasProtectorFinalizer(got) || !cmp.Equal(got.Spec, before.Spec) {
					p.t.Errorf("protector differs from its earlier state, want it unchanged and in force:\n%s", dump(got))
				}
				p.confirm(got)
				p.waitUntilDeleted(got)
			},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newFixture(t)
			p.installCRD("rollouts")
			account := p.account(p.rulesFor("rollouts.argoproj.io"))
			first := p.startAs(account)
			p.create(p.policyForKinds("", rolloutKind()))
			web := p.rollout("10")
			p.create(web)
			protector := p.waitForProtector(rolloutProtector, "the PodProtector is created", hasPolicyAndShare("ProtectionPolicy/shop", "25%"))
			first.stop()
			edit(p, protector, func(got *v1alpha1.PodProtector) { delete(got.Labels, v1alpha1.LabelSourceKind) })
			c.end(p, web)
			p.startAs(account)
			c.want(p, web, protector)
		})
	}
}

// The name of the protector of a part can be that of another source's protector. A protector that the generator did not create belongs to a user.
func TestProtectorOfAnotherOwnerIsNotTakenOver(t *testing.T) {
	p := newFixture(t)
	p.installCRD("bundles")
	first := p.startAs(p.account(p.rulesFor("bundles.example.com")))
	p.create(p.policyForKinds("50%", v1alpha1.WorkloadKind{APIVersion: "example.com/v1", Kind: "Bundle", TemplatePath: "spec.workloads"}))
	bundle := func(name, workloads string) *unstructured.Unstructured {
		created := p.object(`{apiVersion: example.com/v1, kind: Bundle, metadata: {name: ` + name + `}, spec: {workloads: ` + workloads + `}}`)
		p.create(created)
		return created
	}
	const workload = `{kind: Deployment, metadata: {name: front}, spec: {replicas: 10, selector: {matchLabels: {app: front}}}}`
	web := bundle("web", "["+workload+"]")
	front := p.waitForProtector("bundle.example.com-web-front-5bb8e40a", "the part has a PodProtector", hasPolicyAndFloor("ProtectionPolicy/shop", 5))
	first.stop()
	other := bundle("web-front-5bb8e40a", workload)

	none := func(*v1alpha1.PodProtector) {}
	unlabeled := func(got *v1alpha1.PodProtector) { got.Labels = nil }
	for _, c := range []struct {
		claim  string
		change func(*v1alpha1.PodProtector)
		source *unstructured.Unstructured
		want   outcome
	}{
		{"another source has the name", none, other, outdated},
		{"the labels of the other source's protector were removed", unlabeled, other, outdated},
		{"and the annotations", func(got *v1alpha1.PodProtector) { got.Annotations = nil }, other, outdated},
		{"it is not generated", func(got *v1alpha1.PodProtector) { got.Finalizers = nil }, web, nameTaken},
	} {
		edit(p, front, c.change)
		ref := policy.Ref{Group: "example.com", Kind: "Bundle", Namespace: p.namespace, Name: c.source.GetName()}
		if got, err := p.reconciler(nil).reconcileProtectors(t.Context(), ref, c.source, nil); (err != nil) != (c.want == nameTaken) || got != c.want {
			t.Errorf("%s: reconcileProtectors() = %q, %v, want %q", c.claim, got, err, c.want)
		}
		got := p.waitForProtector(front.Name, "the PodProtector exists", func(*v1alpha1.PodProtector) bool { return true })
		if got.ResourceVersion != front.ResourceVersion {
			t.Errorf("%s: protector was changed:\n%s", c.claim, dump(got))
		}
	}
}
