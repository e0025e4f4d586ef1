package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// soon is the remaining lifetime below which a certificate should have been renewed.
const soon = 14 * 24 * time.Hour

// certificate judges the certificate that a webhook serves and the caBundle that the API server verifies it with.
func certificate(where string, hook *Hook, now time.Time) []Finding {
	found := served(finder{where, "certificate"}, hook, now)
	for i := range found {
		if hook.Of != OfRemovals && found[i].Verdict == Problem {
			found[i].Verdict = Warning
		}
		if hook.Of == OfRings && found[i].Verdict != OK {
			found[i].Do, found[i].Runbook = strings.ReplaceAll(found[i].Do, "the webhook", "the sharder"), ""
		}
	}
	return found
}

func served(f finder, hook *Hook, now time.Time) []Finding {
	roots := authorities(hook.Bundle)
	if found := bundle(f, hook, roots, now); len(found) > 0 {
		return found
	}
	switch {
	case hook.Local:
		return f.ok("The caBundle of %s is as it should be. What the webhook serves can be seen from within the cluster alone.", hook.Name)
	case hook.Chain.Err != nil:
		return []Finding{f.bad(Problem, fmt.Sprintf("%s at %s shows none: %v.", hook.Name, hook.Host, hook.Chain.Err), "See that replicas of the webhook are ready.", "webhook-down")}
	}
	if wrong := wrongWith(hook, roots, now); wrong != nil {
		return []Finding{*wrong.of(f)}
	}
	if hook.Answer != nil {
		return []Finding{f.bad(Problem, fmt.Sprintf("%s, asked from here, %v.", hook.Name, hook.Answer),
			"See the log of the webhook.", "webhook-down")}
	}
	return f.ok("What %s serves is trusted, for %s, and good for %s.", hook.Name, hook.Host, days(hook.Chain.Value[0].NotAfter.Sub(now)))
}

// bundle judges the caBundle.
func bundle(f finder, hook *Hook, roots []*x509.Certificate, now time.Time) []Finding {
	switch {
	case len(hook.Bundle) == 0 && !hook.Local:
		return nil // the API server verifies it with the roots of its own machine
	case len(roots) == 0:
		return []Finding{f.bad(Problem, "The caBundle of "+hook.Name+" holds no certificate, so that the apiserver trusts nobody.",
			"See to who fills it: tls.mode of the chart, docs/certificates.md.", "certificate-expired")}
	}
	for _, root := range roots {
		if now.Before(root.NotAfter) {
			return nil
		}
	}
	return []Finding{f.bad(Problem, fmt.Sprintf("All authorities in the caBundle of %s have expired.", hook.Name),
		"See to who makes them: tls.mode of the chart, docs/certificates.md.", "certificate-expired")}
}

// wrong describes what is wrong with a certificate.
type wrong struct {
	Verdict
	found, do, runbook string
}

func (w *wrong) of(f finder) *Finding {
	found := f.bad(w.Verdict, w.found, w.do, w.runbook)
	return &found
}

// wrongWith verifies the served certificate as an API server does. It returns nil if the certificate is valid.
func wrongWith(hook *Hook, roots []*x509.Certificate, now time.Time) *wrong {
	served := hook.Chain.Value[0]
	options := x509.VerifyOptions{CurrentTime: now, Intermediates: x509.NewCertPool(), DNSName: hook.Host}
	for _, between := range hook.Chain.Value[1:] {
		options.Intermediates.AddCert(between)
	}
	if len(roots) > 0 {
		options.Roots = x509.NewCertPool()
		for _, root := range roots {
			options.Roots.AddCert(root)
		}
	}
	_, err := served.Verify(options)
	renew := "Renew it: docs/certificates.md says who does, by tls.mode of the chart."
	invalid, unnamed := x509.CertificateInvalidError{}, x509.HostnameError{}
	switch {
	case now.After(served.NotAfter):
		return &wrong{Problem, fmt.Sprintf("What %s serves expired %s ago, at %s.", hook.Name, days(now.Sub(served.NotAfter)), served.NotAfter.UTC().Format(time.RFC3339)), renew, "certificate-expired"}
	case now.Before(served.NotBefore):
		return &wrong{Problem, fmt.Sprintf("What %s serves is good only from %s on: a clock is wrong.", hook.Name, served.NotBefore.UTC().Format(time.RFC3339)), "See the clocks.", "clock-skew"}
	case errors.As(err, &unnamed):
		return &wrong{Problem, fmt.Sprintf("What %s serves is not for %s.", hook.Name, hook.Host), "Make one for that name.", "certificate-expired"}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &wrong{Problem, fmt.Sprintf("An authority of what %s serves has expired.", hook.Name), renew, "certificate-expired"}
	case err != nil:
		return &wrong{Problem, fmt.Sprintf("The caBundle does not vouch for what %s serves: %v.", hook.Name, err),
			"See to who fills the caBundle: tls.mode of the chart, docs/certificates.md.", "webhook-down"}
	case now.Add(soon).After(served.NotAfter):
		return &wrong{Warning, fmt.Sprintf("What %s serves expires in %s, and should have been replaced by now.", hook.Name, days(served.NotAfter.Sub(now))), renew, "certificate-expiring"}
	}
	return nil
}

func authorities(bundle []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if one, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, one)
		}
	}
	return all
}

// days formats the lifetime of a certificate.
func days(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
