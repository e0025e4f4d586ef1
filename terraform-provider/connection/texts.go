package connection

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// No error message contains the text that it is about, because the text may be or contain a secret.

func wrongHost(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return "is no URL: write it like https://core.example:6443"
	case u.User != nil:
		return "holds a user: set username and password, or another way to log in, in place of that"
	case u.RawQuery != "" || u.Fragment != "":
		return "goes on after its path: leave out what begins with ? or #"
	}
	return ""
}

func wrongProxy(s string) string {
	u, err := url.Parse(s)
	if err != nil || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) || u.Hostname() == "" {
		return "is no URL of a proxy: write it like http://proxy.example:3128, with http, https or socks5"
	}
	return ""
}

// wrongToken ignores white space around a token, because a file may end with a line break.
func wrongToken(s string) string {
	if strings.ContainsFunc(strings.TrimSpace(s), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return "is no token: it has white space in it"
	}
	return ""
}

const asPEM = `: give the text itself, as file("FILE") reads it and base64decode(TEXT) makes it from what a kubeconfig holds`

func wrongCertificates(s string) string {
	found := false
	for block, rest := pem.Decode([]byte(s)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "holds a certificate that cannot be read" + asPEM
		}
		found = true
	}
	if !found {
		return "is no certificate in PEM" + asPEM
	}
	return ""
}

func wrongKey(s string) string {
	for block, rest := pem.Decode([]byte(s)); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			return "is encrypted: decrypt it before, for nobody can be asked for its passphrase"
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return ""
		}
	}
	return "is no private key in PEM" + asPEM
}

func wrongKubeconfig(s string) string {
	kubeconfig, err := clientcmd.Load([]byte(s))
	if err != nil || clientcmdapi.IsConfigEmpty(kubeconfig) {
		return "is not the text of a kubeconfig: config_path takes the path of one"
	}
	return ""
}

func boolean(s string) (value, ok bool) {
	value, err := strconv.ParseBool(s)
	return value, err == nil
}
