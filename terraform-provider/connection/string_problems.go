package connection

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// No error message contains the text that it is about, because the text may be or contain a secret.

func hostProblem(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return "is not a URL: use a value like https://core.example:6443"
	case u.User != nil:
		return "contains a user: set username and password, or other credentials, instead"
	case u.RawQuery != "" || u.Fragment != "":
		return "has a query or a fragment: remove the part that begins with ? or #"
	}
	return ""
}

func proxyProblem(s string) string {
	u, err := url.Parse(s)
	if err != nil || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) || u.Hostname() == "" {
		return "is not a proxy URL: use a value like http://proxy.example:3128, with http, https or socks5"
	}
	return ""
}

func timeoutProblem(s string) string {
	timeout, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return `is not a duration: use a value like "30s" or "2m"`
	case timeout < 0:
		return "is negative: every request would time out"
	}
	return ""
}

// tokenProblem ignores white space around a token, because a file may end with a line break.
func tokenProblem(s string) string {
	if strings.ContainsFunc(strings.TrimSpace(s), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return "is not a token: it contains white space"
	}
	return ""
}

const pemHint = `: set the PEM text itself, for example file("FILE"), or base64decode(TEXT) of a value from a kubeconfig`

func certificatesProblem(s string) string {
	found := false
	for block, rest := pem.Decode([]byte(s)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "contains a certificate that cannot be parsed" + pemHint
		}
		found = true
	}
	if !found {
		return "is not a PEM certificate" + pemHint
	}
	return ""
}

func keyProblem(s string) string {
	for block, rest := pem.Decode([]byte(s)); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			return "is encrypted: decrypt it first, because Terraform cannot prompt for its passphrase"
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return ""
		}
	}
	return "is not a PEM private key" + pemHint
}

func kubeconfigProblem(s string) string {
	kubeconfig, err := clientcmd.Load([]byte(s))
	if err != nil || clientcmdapi.IsConfigEmpty(kubeconfig) {
		return "is not the content of a kubeconfig: use config_path for the path of a file"
	}
	return ""
}

func parseBool(s string) (value, ok bool) {
	value, err := strconv.ParseBool(s)
	return value, err == nil
}

// fieldManagerProblem validates as the API server does.
func fieldManagerProblem(name string) string {
	if len(metav1validation.ValidateFieldManager(name, field.NewPath("field_manager"))) > 0 {
		return "is not the name of a field manager: use at most 128 printable characters"
	}
	return ""
}
