package findings_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
	"github.com/breakwater-k8s/breakwater/webhook/register"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// signer signs the certificates of a test.
type signer struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newSigner(t *testing.T, ends time.Duration) *signer {
	t.Helper()
	s := &signer{}
	s.certificate, s.key = issueCertificate(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: now.Add(ends),
	}, nil)
	return s
}

func (s *signer) bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.certificate.Raw})
}

func (s *signer) serve(t *testing.T, name string, ends time.Duration) []*x509.Certificate {
	t.Helper()
	served, _ := issueCertificate(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "webhook"}, DNSNames: []string{name}, NotAfter: now.Add(ends), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, s)
	return []*x509.Certificate{served}
}

func issueCertificate(t *testing.T, template *x509.Certificate, by *signer) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	if template.NotBefore.IsZero() {
		template.NotBefore = now.Add(-1000 * time.Hour)
	}
	parent, signing := template, key
	if by != nil {
		parent, signing = by.certificate, by.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signing)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

func definition(name, description string) apiextensionsv1.CustomResourceDefinition {
	d := apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1alpha1", Served: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Description: description}},
	}}
	d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return d
}

func cellObject() v1alpha1.Cell {
	heard := metav1.NewMicroTime(now.Add(-3 * time.Second))
	c := v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	c.Status.Aggregator = v1alpha1.CellAggregator{Holder: "one", Epoch: 3, LastHeartbeat: &heard}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAggregationFresh, v1alpha1.ConditionConnected, v1alpha1.ConditionGuarded} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Well"})
	}
	return c
}

// protector returns a protector with ten available pods in cell a and a floor of eight.
func protector(change func(*v1alpha1.PodProtector)) v1alpha1.PodProtector {
	p := v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(8)
	change(&p)
	if p.Status.Cells == nil {
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a"}}
		a := &p.Status.Cells[0].Aggregation
		a.TotalReplicas, a.AvailableReplicas, a.CountedReplicas, a.Epoch, a.SnapshotVersion = 10, 10, 10, 3, "7"
	}
	for i := range p.Status.Cells {
		p.Status.Cells[i].Aggregation.CountedSpec = quota.CountedSpec(&p.Spec)
	}
	return p
}

func pod(component, image string, ready bool) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "breakwater-system", Name: component + "-0", Labels: map[string]string{findings.LabelComponent: component}}}
	p.Spec.Containers = []corev1.Container{{Image: image}}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

// healthy returns a reading without problems.
func healthy(t *testing.T, trusted *signer) *findings.Inspection {
	t.Helper()
	configuration, err := register.Configuration(register.Options{
		Name: "breakwater", Cell: "a", Endpoint: register.Endpoint{URL: "https://hook:9443", CABundle: trusted.bundle()}, TimeoutSeconds: 10,
		ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []apiextensionsv1.CustomResourceDefinition{definition("cells.breakwater.dev", "this"), definition("podprotectors.breakwater.dev", "this")}
	r := &findings.Inspection{Now: now, Version: "v1", Definitions: want}
	core := findings.Core{}
	core.Definitions.Value = []apiextensionsv1.CustomResourceDefinition{definition("cells.breakwater.dev", "this"), definition("podprotectors.breakwater.dev", "this")}
	core.Cells.Value = []v1alpha1.Cell{cellObject()}
	core.Protectors.Value = []v1alpha1.PodProtector{protector(func(*v1alpha1.PodProtector) {})}
	core.Pods.Value = []corev1.Pod{pod("generator", "registry:5000/breakwater:v1", true)}
	core.Permissions.Value = []findings.Permission{{Verb: "list", Resource: "cells", Allowed: true}, {Account: "system:serviceaccount:s:generator", Verb: "patch", Resource: "cells", Allowed: true}}
	addCoreWebhooks(t, &core, trusted)
	cell := findings.Cell{Name: "a", EvictionAnswer: errors.New("admission webhook \"pods.breakwater.dev\" denied the request: no pod")}
	cell.Configurations.Value = []admissionregistrationv1.ValidatingWebhookConfiguration{*configuration}
	cell.Hooks = []findings.Hook{{Name: "pods.breakwater.dev", Host: "hook", Bundle: trusted.bundle()}}
	cell.Hooks[0].Chain.Value = trusted.serve(t, "hook", 300*day)
	addSchedulingWebhooks(t, &cell, trusted)
	cell.NamespaceObjects.Value = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"kubernetes.io/metadata.name": "shop"}}}}
	cell.Pods.Value = []corev1.Pod{pod("webhook", "breakwater:v1@sha256:0", true)}
	r.Cores, r.Cells = []findings.Core{core}, []findings.Cell{cell}
	return r
}

func TestJudgeFindsNoProblemInHealthyInstallation(t *testing.T) {
	all := findings.Judge(healthy(t, newSigner(t, 1000*day)))
	known := map[string]bool{}
	for _, f := range all {
		if f.Verdict != findings.OK {
			t.Errorf("%+v", f)
		}
		known[f.Check] = true
	}
	for _, check := range findings.Checks() {
		if !known[check] && check != "apiserver" {
			t.Errorf("no finding of check %s", check)
		}
	}
	if len(known) != len(findings.Checks())-1 || findings.Worst(all) != findings.OK {
		t.Errorf("Judge() has findings of checks %v, and the worst is %s; want all checks of Checks() but apiserver, and ok", known, findings.Worst(all))
	}
}

func TestJudgeIgnoresReservationNearDeadline(t *testing.T) {
	r := healthy(t, newSigner(t, 1000*day))
	r.Cores[0].Protectors.Value[0].Status.Cells[0].AdmissionHistory.Buckets = []v1alpha1.Bucket{{StartTime: metav1.NewMicroTime(now.Add(-100 * time.Second)), Counter: 1, PodUID: "u"}}
	if all := findings.Judge(r); findings.Worst(all) != findings.OK {
		t.Errorf("%+v", all)
	}
}

func TestJudgeSuggestsOwnCredentialsForCell(t *testing.T) {
	r := healthy(t, newSigner(t, 1000*day))
	r.Cells[0].UsesCellKubeconfig, r.Cells[0].NamespaceObjects.Err = true, errors.New("forbidden")
	for _, f := range findings.Judge(r) {
		if (f.Verdict == findings.Unknown) != strings.Contains(f.Do, "--cell-context a=CONTEXT") {
			t.Errorf("%+v", f)
		}
	}
}

func TestSortByVerdict(t *testing.T) {
	all := []findings.Finding{{Check: "a", Verdict: findings.OK}, {Check: "b", Verdict: findings.Warning}, {Check: "c", Verdict: findings.Problem}, {Check: "d", Verdict: findings.Unknown}, {Check: "e", Verdict: findings.Problem}}
	order := ""
	findings.SortByVerdict(all)
	for i := range all {
		order += all[i].Check
	}
	if order != "cedba" || findings.Worst(all) != findings.Problem || findings.Worst(all[2:]) != findings.Unknown || findings.Worst(all[3:]) != findings.Warning || findings.Worst(nil) != findings.OK {
		t.Errorf("SortByVerdict() = %s, want cedba", order)
	}
	if of := findings.OfChecks(append(all, findings.Finding{Check: "apiserver"}), []string{"b"}); len(of) != 2 || of[0].Check != "b" {
		t.Errorf("Of(b) = %+v, want the findings of b and apiserver", of)
	}
}
