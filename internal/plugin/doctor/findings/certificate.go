package findings

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// renewalDue is the remaining lifetime below which a certificate should have been renewed.
const renewalDue = 14 * 24 * time.Hour

const fixBundle = "Fix the component that fills it, which depends on tls.mode of the chart: docs/how-to/certificates.md."

// checkCertificate judges the certificate that a webhook serves and the caBundle that the API server verifies it with.
func checkCertificate(where string, hook *Hook, now time.Time) []Finding {
	found := checkServedCertificate(reporter{where, "certificate"}, hook, now)
	for i := range found {
		if hook.Reviews != RemovalReviews && found[i].Verdict == Problem {
			found[i].Verdict = Warning
		}
		if hook.Reviews == RingReviews && found[i].Verdict != OK {
			found[i].Do, found[i].Runbook = strings.ReplaceAll(found[i].Do, "the webhook", "the sharder"), ""
		}
	}
	return found
}

func checkServedCertificate(f reporter, hook *Hook, now time.Time) []Finding {
	roots := parseCertificates(hook.Bundle)
	if found := checkBundle(f, hook, roots, now); len(found) > 0 {
		return found
	}
	switch {
	case hook.InClusterOnly:
		return f.ok("The caBundle of %s is valid. The certificate of the webhook can be checked only from within the cluster.", hook.Name)
	case hook.Chain.Err != nil:
		return []Finding{f.finding(Problem, fmt.Sprintf("%s at %s did not present a certificate: %v.", hook.Name, hook.Host, hook.Chain.Err), "Check that replicas of the webhook are ready.", "webhook-down")}
	}
	if found := verifyCertificate(f, hook, roots, now); len(found) > 0 {
		return found
	}
	if hook.Answer != nil {
		return []Finding{f.finding(Problem, fmt.Sprintf("%s, called from this machine, %v.", hook.Name, hook.Answer),
			"Read the log of the webhook.", "webhook-down")}
	}
	return f.ok("The certificate of %s is trusted, is issued for %s, and is valid for another %s.", hook.Name, hook.Host,
		formatLifetime(hook.Chain.Value[0].NotAfter.Sub(now)))
}

// checkBundle judges the caBundle.
func checkBundle(f reporter, hook *Hook, roots []*x509.Certificate, now time.Time) []Finding {
	switch {
	case len(hook.Bundle) == 0 && !hook.InClusterOnly:
		return nil // the API server verifies it with the roots of its own machine
	case len(roots) == 0:
		return []Finding{f.finding(Problem, "The caBundle of "+hook.Name+" holds no certificate, so the API server cannot verify the webhook.",
			fixBundle, "certificate-expired")}
	}
	for _, root := range roots {
		if now.Before(root.NotAfter) {
			return nil
		}
	}
	return []Finding{f.finding(Problem, fmt.Sprintf("All CA certificates in the caBundle of %s have expired.", hook.Name),
		"Fix the component that renews them, which depends on tls.mode of the chart: docs/how-to/certificates.md.", "certificate-expired")}
}

// verifyCertificate verifies the served certificate as an API server does. It returns none if the certificate is valid.
func verifyCertificate(f reporter, hook *Hook, roots []*x509.Certificate, now time.Time) []Finding {
	served := hook.Chain.Value[0]
	options := x509.VerifyOptions{CurrentTime: now, Intermediates: x509.NewCertPool(), DNSName: hook.Host}
	for _, intermediate := range hook.Chain.Value[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	if len(roots) > 0 {
		options.Roots = x509.NewCertPool()
		for _, root := range roots {
			options.Roots.AddCert(root)
		}
	}
	_, err := served.Verify(options)
	renew := "Renew it. The component that renews it depends on tls.mode of the chart: docs/how-to/certificates.md."
	invalid, hostnameErr := x509.CertificateInvalidError{}, x509.HostnameError{}
	switch {
	case now.After(served.NotAfter):
		return []Finding{f.finding(Problem, fmt.Sprintf("The certificate of %s expired %s ago, at %s.", hook.Name, formatLifetime(now.Sub(served.NotAfter)), served.NotAfter.UTC().Format(time.RFC3339)), renew, "certificate-expired")}
	case now.Before(served.NotBefore):
		return []Finding{f.finding(Problem, fmt.Sprintf("The certificate of %s is not valid before %s: a clock is wrong.", hook.Name, served.NotBefore.UTC().Format(time.RFC3339)), "Check the clocks of the machines.", "clock-skew")}
	case errors.As(err, &hostnameErr):
		return []Finding{f.finding(Problem, fmt.Sprintf("The certificate of %s is not valid for %s.", hook.Name, hook.Host), "Issue a certificate for that name.", "certificate-expired")}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return []Finding{f.finding(Problem, fmt.Sprintf("A CA certificate in the chain of %s has expired.", hook.Name), renew, "certificate-expired")}
	case err != nil:
		return []Finding{f.finding(Problem, fmt.Sprintf("The caBundle does not verify the certificate of %s: %v.", hook.Name, err),
			"Fix the component that fills the caBundle, which depends on tls.mode of the chart: docs/how-to/certificates.md.", "webhook-down")}
	case now.Add(renewalDue).After(served.NotAfter):
		return []Finding{f.finding(Warning, fmt.Sprintf("The certificate of %s expires in %s, and should have been renewed by now.", hook.Name, formatLifetime(served.NotAfter.Sub(now))), renew, "certificate-expiring")}
	}
	return nil
}

// checkBundlesMatch finds scheduling webhooks that share a Service with removal webhooks but trust other authorities. The caBundles of one Service
// must match.
func checkBundlesMatch(c *Cell) (found []Finding) {
	for i := range c.Scheduling {
		hook := &c.Scheduling[i]
		for j := range c.Hooks {
			removals := &c.Hooks[j]
			if hook.InClusterOnly && removals.InClusterOnly && hook.Host == removals.Host && !shareAuthority(hook.Bundle, removals.Bundle) {
				found = append(found, reporter{c.where(), "certificate"}.finding(Warning,
					fmt.Sprintf("The caBundle of %s has no CA certificate in common with that of %s, although both call %s.", hook.Name, removals.Name, hook.Host),
					fixBundle, "certificate-expired"))
			}
		}
	}
	return found
}

// shareAuthority reports whether two bundles have an authority in common. It is also true if either has none: another check reports
// that.
func shareAuthority(a, b []byte) bool {
	all, others := parseCertificates(a), parseCertificates(b)
	for _, one := range all {
		for _, other := range others {
			if one.Equal(other) {
				return true
			}
		}
	}
	return len(all) == 0 || len(others) == 0
}

func parseCertificates(bundle []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if one, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, one)
		}
	}
	return all
}

func formatLifetime(d time.Duration) string {
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

// checkTokens judges whether the tokens with which a core reaches the clusters of its Cells are renewed before they expire.
func checkTokens(core *Core) []Finding {
	f := reporter{core.where(), "tokens"}
	if core.Cells.Err != nil {
		return nil // checkCells says so
	}
	var found []Finding
	expiring := 0
	for i := range core.Cells.Value {
		cell := &core.Cells.Value[i]
		condition := meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionTokenRenewed)
		if condition == nil || condition.Reason == v1alpha1.ReasonNoExpiry {
			continue
		}
		expiring++
		if condition.Status != metav1.ConditionTrue {
			found = append(found, f.finding(Warning, "Cell "+cell.Name+": "+condition.Message,
				"Run breakwater join again before the token expires. It also grants what a renewal needs.", "token-expiring"))
		}
	}
	return f.orOK(found, "Tokens of Cells that expire: %d. All of them are renewed before.", expiring)
}
