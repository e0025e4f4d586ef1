package main

import (
	"regexp"
	"strings"
)

// manifest is a Plugin of krew, of krew.googlecontainertools.github.com/v1alpha2.
type manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type spec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Caveats          string         `json:"caveats"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string     `json:"uri"`
	SHA256 string     `json:"sha256"`
	Bin    string     `json:"bin"`
	Files  []krewFile `json:"files"`
}

type krewFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func manifestOf(version, base string, built []packed) manifest {
	m := manifest{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: metadata{"breakwater"}}
	m.Spec = spec{
		Version: version, Homepage: "https://github.com/breakwater-k8s/breakwater",
		ShortDescription: "Show what Breakwater protects and denies, and why",
		Description: `Breakwater keeps enough pods available through deletion storms. This plugin tells the
engineer on call what it protects and refuses, whether that is right, and what to do:
status, cells, denials, watch and more.`,
		Caveats: `Protectors are read from the core cluster: the current context, or --core-context.
Completion: link kubectl_complete-breakwater to kubectl-breakwater somewhere in PATH.`,
	}
	for _, one := range built {
		p := krewPlatform{URI: strings.TrimSuffix(base, "/") + "/" + one.name, SHA256: one.sha256, Bin: one.program()}
		p.Selector.MatchLabels = map[string]string{"os": one.os, "arch": one.arch}
		p.Files = []krewFile{{one.program(), "."}, {"LICENSE", "."}}
		m.Spec.Platforms = append(m.Spec.Platforms, p)
	}
	return m
}

// semanticVersion converts the output of git describe to a semantic version with a v, as krew requires it. A commit without a tag sorts
// before the first release.
func semanticVersion(described string) string {
	semantic := regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$`)
	if parts := semantic.FindStringSubmatch(described); parts != nil {
		return "v" + parts[1]
	}
	if described == "" {
		described = "devel"
	}
	return "v0.0.0-" + regexp.MustCompile(`[^0-9A-Za-z.-]+`).ReplaceAllString(described, "-")
}
