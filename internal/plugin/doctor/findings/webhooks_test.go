package findings_test

import (
	"errors"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
	"github.com/breakwater-k8s/breakwater/webhook/register"
)

func webhookOptions(trusted *signer) register.Options {
	return register.Options{
		Name: "breakwater-more", Core: "hub", Cell: "a", Endpoint: register.Endpoint{URL: "https://hook:9443", CABundle: trusted.bundle()}, TimeoutSeconds: 10,
		ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(),
	}
}

func newHook(t *testing.T, trusted *signer, name string, of findings.ReviewKind) findings.Hook {
	t.Helper()
	hook := findings.Hook{Name: name, Reviews: of, Host: "hook", Bundle: trusted.bundle()}
	hook.Chain.Value = trusted.serve(t, "hook", 300*day)
	return hook
}

// addCoreWebhooks adds a core's webhook configurations to a reading: for protectors, and for objects of the ring carts.
func addCoreWebhooks(t *testing.T, core *findings.Core, trusted *signer) {
	t.Helper()
	protectors, err := register.CoreConfiguration(webhookOptions(trusted))
	if err != nil {
		t.Fatal(err)
	}
	core.Validating.Value = []admissionregistrationv1.ValidatingWebhookConfiguration{*protectors}
	core.SecondProtector = &findings.SecondProtectorAnswer{Existing: "shop/web", Err: errors.New(`admission webhook "podprotectors.breakwater.dev" denied the request: no`)}
	carts := v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: "carts", Generation: 2}}
	carts.Spec.ShardNamespace = "shop"
	carts.Spec.Resources = []v1alpha1.RingResource{{
		GroupResource:       v1alpha1.GroupResource{Group: "apps", Resource: "deployments"},
		ControlledResources: []v1alpha1.GroupResource{{Resource: "configmaps"}},
	}}
	carts.Status.ObservedGeneration, carts.Status.Members = 2, []v1alpha1.RingMember{{Name: "carts-0"}}
	carts.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Configured"}}
	core.Rings.Value = []v1alpha1.ClusterRing{carts}
	core.Leases.Value = []coordinationv1.Lease{shard("carts-0", 5*time.Second)}
	core.Mutating.Value = []admissionregistrationv1.MutatingWebhookConfiguration{ringConfiguration()}
	core.Hooks = []findings.Hook{newHook(t, trusted, "podprotectors.breakwater.dev", findings.ProtectorReviews), newHook(t, trusted, "assign.rings.breakwater.dev", findings.RingReviews)}
}

// shard returns the Lease of a shard that renewed it the given time ago and acquired it an hour ago.
func shard(name string, renewed time.Duration) coordinationv1.Lease {
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{v1alpha1.LabelRing: "carts"}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(name + "_1"), LeaseDurationSeconds: ptr.To(int32(15)),
			AcquireTime: &metav1.MicroTime{Time: now.Add(-time.Hour)}, RenewTime: &metav1.MicroTime{Time: now.Add(-renewed)},
		},
	}
}

// ringConfiguration is the configuration that the sharder creates for the ring carts.
func ringConfiguration() admissionregistrationv1.MutatingWebhookConfiguration {
	ignore := admissionregistrationv1.Ignore
	rule := func(group, resource string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}
	}
	return admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "breakwater-ring-carts"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "assign.rings.breakwater.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://sharder:9443/rings/carts")},
			Rules: []admissionregistrationv1.RuleWithOperations{rule("apps", "deployments"), rule("", "configmaps")}, FailurePolicy: &ignore,
			NamespaceSelector: webhookconfig.RingNamespaces(&v1alpha1.ClusterRingSpec{}, &admissionregistrationv1.WebhookClientConfig{}),
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: v1alpha1.LabelShard("carts"), Operator: metav1.LabelSelectorOpDoesNotExist},
			}},
		}},
	}
}

// addSchedulingWebhooks adds a cell's webhook configurations of scheduling policies to a reading.
func addSchedulingWebhooks(t *testing.T, cell *findings.Cell, trusted *signer) {
	t.Helper()
	configuration, err := register.SchedulingConfiguration(webhookOptions(trusted))
	if err != nil {
		t.Fatal(err)
	}
	cell.Mutating.Value = []admissionregistrationv1.MutatingWebhookConfiguration{*configuration}
	for i := range configuration.Webhooks {
		cell.Scheduling = append(cell.Scheduling, newHook(t, trusted, configuration.Webhooks[i].Name, findings.SchedulingReviews))
	}
}

func TestJudgeReportsProtectorWebhooks(t *testing.T) {
	trusted := newSigner(t, 1000*day)
	hook := func(change func(*admissionregistrationv1.ValidatingWebhook)) func(*findings.Inspection) {
		return core(func(c *findings.Core) { change(&c.Validating.Value[0].Webhooks[0]) })
	}
	fail := admissionregistrationv1.Fail
	broken{
		"no webhook is configured": {core(func(c *findings.Core) { c.Validating.Value, c.SecondProtector = nil, nil }),
			finding{"core", "targets", findings.Warning, "The API server does not send protectors to the webhook", ""}},
		"configurations cannot be read": {core(func(c *findings.Core) { c.Validating.Err = forbidden }),
			finding{"core", "targets", findings.Unknown, "forbidden", ""}},
		"updates are not reviewed": {hook(func(w *admissionregistrationv1.ValidatingWebhook) { w.Rules = w.Rules[:1] }),
			finding{"core", "targets", findings.Warning, "no webhook is called for UPDATE of podprotectors", ""}},
		"the webhook has no failurePolicy": {hook(func(w *admissionregistrationv1.ValidatingWebhook) { w.FailurePolicy = nil }),
			finding{"core", "targets", findings.Warning, "failurePolicy Fail", ""}},
		"the webhook has failurePolicy Fail": {hook(func(w *admissionregistrationv1.ValidatingWebhook) { w.FailurePolicy = &fail }),
			finding{"core", "targets", findings.Warning, "failurePolicy Fail", ""}},
		"some namespaces are left out": {hook(func(w *admissionregistrationv1.ValidatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}), finding{"core", "targets", findings.Warning, "podprotectors.breakwater.dev in breakwater-more has a selector", ""}},
		"its match condition differs": {hook(func(w *admissionregistrationv1.ValidatingWebhook) { w.MatchConditions[0].Expression = "false" }),
			finding{"core", "targets", findings.Warning, "not Breakwater's: names-a-workload", ""}},
		"a second protector is stored": {core(func(c *findings.Core) { c.SecondProtector.Err = nil }),
			finding{"core", "targets", findings.Warning, "it would store a second protector for the workload of shop/web", "webhook-down"}},
		"the dry run is forbidden": {core(func(c *findings.Core) {
			c.SecondProtector.Err, c.Hooks[0].InClusterOnly, c.Hooks[0].Chain.Value = forbidden, true, nil
		}),
			finding{"core", "targets", findings.Unknown, "forbidden", ""}},
		"a quota denies the dry run": {core(func(c *findings.Core) { c.SecondProtector.Err = errors.New("exceeded quota") }),
			finding{"core", "targets", findings.Unknown, "exceeded quota", ""}},
		"its certificate has expired": {core(func(c *findings.Core) { c.Hooks[0].Chain.Value = trusted.serve(t, "hook", -3*time.Hour) }),
			finding{"core", "certificate", findings.Warning, "The certificate of podprotectors.breakwater.dev expired 3h ago", "certificate-expired"}},
	}.run(t, trusted)
}

// If the webhook answered this machine, a user who may not create protectors gets no finding.
func TestJudgeAcceptsAnswerToThisMachine(t *testing.T) {
	r := healthy(t, newSigner(t, 1000*day))
	r.Cores[0].SecondProtector.Err = forbidden
	if all := findings.Judge(r); findings.Worst(all) != findings.OK {
		t.Errorf("%+v", all)
	}
}

func TestTargetedProtector(t *testing.T) {
	r := healthy(t, newSigner(t, 1000*day))
	c := &r.Cores[0]
	aimed := protector(func(p *v1alpha1.PodProtector) {
		p.Spec.Selector, p.Spec.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		p.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
	})
	young := *aimed.DeepCopy()
	young.CreationTimestamp = metav1.NewTime(now.Add(-time.Second))
	gone := *aimed.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{Time: now}
	c.Protectors.Value = append(c.Protectors.Value, young, gone)
	if p := findings.TargetedProtector(c, now); p != nil {
		t.Errorf("%+v", p)
	}
	c.Protectors.Value = append(c.Protectors.Value, aimed)
	if p := findings.TargetedProtector(c, now); p == nil || !p.CreationTimestamp.Equal(&aimed.CreationTimestamp) {
		t.Errorf("%+v", p)
	}
	c.Validating.Value = nil
	if p := findings.TargetedProtector(c, now); p != nil {
		t.Errorf("TargetedProtector() without a webhook = %+v, want nil", p)
	}
}

func TestJudgeReportsSchedulingWebhooks(t *testing.T) {
	trusted, other := newSigner(t, 1000*day), newSigner(t, 1000*day)
	hook := func(n int, change func(*admissionregistrationv1.MutatingWebhook)) func(*findings.Inspection) {
		return checkCell(func(c *findings.Cell) { change(&c.Mutating.Value[0].Webhooks[n]) })
	}
	page := "scheduling-policies-not-applied"
	local := func(c *findings.Cell) {
		for _, hooks := range [][]findings.Hook{c.Hooks, c.Scheduling} {
			for i := range hooks {
				hooks[i].InClusterOnly, hooks[i].Chain.Value = true, nil
			}
		}
	}
	broken{
		"no webhook is configured, and there are policies": {func(r *findings.Inspection) {
			r.Cells[0].Mutating.Value, r.Cores[0].Policies.Value = nil, []string{"shop/zones"}
		}, finding{"cell a", "scheduling", findings.Warning, "There are scheduling policies (shop/zones), but they do not apply to pods: no MutatingWebhookConfiguration calls /cells/a/schedule", page}},
		"no webhook is configured, and policies cannot be read": {func(r *findings.Inspection) { r.Cells[0].Mutating.Value, r.Cores[0].Policies.Err = nil, forbidden },
			finding{"cell a", "scheduling", findings.Unknown, "forbidden", ""}},
		"configurations cannot be read": {checkCell(func(c *findings.Cell) { c.Mutating.Err = forbidden }),
			finding{"cell a", "scheduling", findings.Unknown, "forbidden", ""}},
		"pods are not reviewed": {hook(0, func(w *admissionregistrationv1.MutatingWebhook) { w.Rules = nil }),
			finding{"cell a", "scheduling", findings.Warning, "no webhook is called for CREATE of pods", page}},
		"a kind of workload is not reviewed": {hook(1, func(w *admissionregistrationv1.MutatingWebhook) { w.Rules = append(w.Rules[:2:2], w.Rules[3]) }),
			finding{"cell a", "scheduling", findings.Warning, "no webhook is called for CREATE of cronjobs; no webhook is called for UPDATE of cronjobs", page}},
		"only some namespaces": {hook(0, func(w *admissionregistrationv1.MutatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}), finding{"cell a", "scheduling", findings.Warning, "selects namespaces by the label a", page}},
		"only some pods": {hook(0, func(w *admissionregistrationv1.MutatingWebhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}), finding{"cell a", "scheduling", findings.Warning, "has an objectSelector", page}},
		"pods have a condition": {hook(0, func(w *admissionregistrationv1.MutatingWebhook) {
			w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "at-night", Expression: "true"}}
		}), finding{"cell a", "scheduling", findings.Warning, "not Breakwater's: at-night", page}},
		"pods have the condition of templates": {hook(0, func(w *admissionregistrationv1.MutatingWebhook) {
			w.MatchConditions = webhookconfig.TemplateConditions()
		}), finding{"cell a", "scheduling", findings.Warning, "not Breakwater's: changes-the-spec", page}},
		"it leaves pods as they are": {checkCell(func(c *findings.Cell) { c.Scheduling[0].Answer = errors.New("does not change pods (UnknownCell): no") }),
			finding{"cell a", "certificate", findings.Warning, "does not change pods (UnknownCell)", "webhook-down"}},
		"its caBundle differs from that of removals": {checkCell(func(c *findings.Cell) {
			local(c)
			c.Scheduling[1].Bundle = other.bundle()
		}), finding{"cell a", "certificate", findings.Warning, "The caBundle of templates.scheduling.breakwater.dev has no CA certificate in common with that of pods.breakwater.dev", "certificate-expired"}},
	}.run(t, trusted)
}

func TestJudgeNeedsNoSchedulingWebhookWithoutPolicies(t *testing.T) {
	r := healthy(t, newSigner(t, 1000*day))
	r.Cells[0].Mutating.Value, r.Cells[0].Scheduling = nil, nil
	if all := findings.Judge(r); findings.Worst(all) != findings.OK {
		t.Errorf("%+v", all)
	}
}

func TestJudgeReportsRings(t *testing.T) {
	trusted := newSigner(t, 1000*day)
	ofRing := func(change func(*v1alpha1.ClusterRing)) func(*findings.Inspection) {
		return core(func(c *findings.Core) { change(&c.Rings.Value[0]) })
	}
	hook := func(change func(*admissionregistrationv1.MutatingWebhook)) func(*findings.Inspection) {
		return core(func(c *findings.Core) { change(&c.Mutating.Value[0].Webhooks[0]) })
	}
	const page, down = "objects-not-assigned", "sharder-down"
	broken{
		"rings cannot be read": {core(func(c *findings.Core) { c.Rings.Err = forbidden }),
			finding{"core", "rings", findings.Unknown, "forbidden", ""}},
		"Leases cannot be read": {core(func(c *findings.Core) { c.Leases.Err = forbidden }),
			finding{"core", "rings", findings.Unknown, "Leases of shards cannot be read", ""}},
		"one has no shard": {core(func(c *findings.Core) { c.Leases.Value = nil }),
			finding{"core", "rings", findings.Problem, "ClusterRing carts has no live shard, so no controller works on its objects: none has a Lease in namespace shop", page}},
		"its shard is another ring's": {core(func(c *findings.Core) { c.Leases.Value[0].Labels[v1alpha1.LabelRing] = "cart" }),
			finding{"core", "rings", findings.Problem, "none has a Lease in namespace shop", page}},
		"its shard is in another namespace": {core(func(c *findings.Core) { c.Leases.Value[0].Namespace = "bank" }),
			finding{"core", "rings", findings.Problem, "none has a Lease in namespace shop", page}},
		"its shard has released its Lease": {core(func(c *findings.Core) { c.Leases.Value[0].Spec.HolderIdentity = nil }),
			finding{"core", "rings", findings.Problem, "none has a Lease in namespace shop", page}},
		"its shard is silent": {core(func(c *findings.Core) { c.Leases.Value[0] = shard("carts-0", 36*time.Second) }),
			finding{"core", "rings", findings.Problem, "these do not renew their Leases: carts-0", page}},
		"one of two is silent": {core(func(c *findings.Core) { c.Leases.Value = append(c.Leases.Value, shard("carts-1", 36*time.Second)) }),
			finding{"core", "rings", findings.Warning, "Shards of ClusterRing carts do not renew their Leases: carts-1", ""}},
		"the sharder does not list one": {core(func(c *findings.Core) { c.Leases.Value = append(c.Leases.Value, shard("carts-1", 4*time.Second)) }),
			finding{"core", "rings", findings.Warning, "The sharder does not list live shards of ClusterRing carts: carts-1", down}},
		"no sharder has set conditions": {ofRing(func(r *v1alpha1.ClusterRing) { r.Status.Conditions = nil }),
			finding{"core", "rings", findings.Warning, "No sharder has reported the state of", down}},
		"the sharder is behind": {ofRing(func(r *v1alpha1.ClusterRing) { r.Generation = 3 }),
			finding{"core", "rings", findings.Warning, "has not observed the latest generation of ClusterRing carts", down}},
		"it is not configured": {ofRing(func(r *v1alpha1.ClusterRing) {
			r.Status.Conditions[0].Status, r.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonNotConfigured
		}), finding{"core", "rings", findings.Warning, "is not Ready (" + v1alpha1.ReasonNotConfigured, page}},
		"configurations cannot be read": {core(func(c *findings.Core) { c.Mutating.Err = forbidden }),
			finding{"core", "rings", findings.Unknown, "forbidden", ""}},
		"configurations for two rings cannot be read": {core(func(c *findings.Core) {
			c.Mutating.Err, c.Rings.Value = forbidden, append(c.Rings.Value, c.Rings.Value[0])
		}), finding{"core", "rings", findings.Unknown, "forbidden", ""}},
		"no webhook is configured": {core(func(c *findings.Core) { c.Mutating.Value = nil }),
			finding{"core", "rings", findings.Warning, "no MutatingWebhookConfiguration calls /rings/carts", down}},
		"controlled objects are not reviewed": {hook(func(w *admissionregistrationv1.MutatingWebhook) { w.Rules = w.Rules[:1] }),
			finding{"core", "rings", findings.Warning, "no webhook is called for CREATE of configmaps; no webhook is called for UPDATE of configmaps", page}},
		"its webhook has no failurePolicy": {hook(func(w *admissionregistrationv1.MutatingWebhook) { w.FailurePolicy = nil }),
			finding{"core", "rings", findings.Warning, "failurePolicy Fail", page}},
		"it looks at other namespaces": {ofRing(func(r *v1alpha1.ClusterRing) {
			r.Spec.NamespaceSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"team": "carts"}}
		}), finding{"core", "rings", findings.Warning, "selects other namespaces than the ring", page}},
		"it looks at all namespaces": {hook(func(w *admissionregistrationv1.MutatingWebhook) { w.NamespaceSelector = &metav1.LabelSelector{} }),
			finding{"core", "rings", findings.Warning, "selects other namespaces than the ring", page}},
		"it looks at all objects": {hook(func(w *admissionregistrationv1.MutatingWebhook) { w.ObjectSelector = nil }),
			finding{"core", "rings", findings.Warning, "does not select all objects without a shard", page}},
		"it has a condition": {hook(func(w *admissionregistrationv1.MutatingWebhook) {
			w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "at-night", Expression: "true"}}
		}), finding{"core", "rings", findings.Warning, "not Breakwater's: at-night", page}},
		"the sharder does not answer": {core(func(c *findings.Core) { c.Hooks[1].Chain.Err = errors.New("connection refused") }),
			finding{"core", "certificate", findings.Warning, "assign.rings.breakwater.dev at hook did not present a certificate: connection refused", ""}},
	}.run(t, trusted)
}

// A ring without resources has shards that divide something else. It needs no sharder.
func TestJudgeNeedsOnlyShardsForRingWithoutResources(t *testing.T) {
	r := healthy(t, newSigner(t, 1000*day))
	c := &r.Cores[0]
	c.Rings.Value[0].Spec.Resources, c.Rings.Value[0].Status = nil, v1alpha1.ClusterRingStatus{}
	c.Mutating.Value, c.Hooks = nil, c.Hooks[:1]
	if all := findings.Judge(r); findings.Worst(all) != findings.OK {
		t.Errorf("%+v", all)
	}
	c.Leases.Value = nil
	if all := findings.Judge(r); findings.Worst(all) != findings.Problem {
		t.Errorf("without shards: %+v", all)
	}
}
