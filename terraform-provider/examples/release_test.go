package examples_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// release is the part of .goreleaser.yml that registries depend on.
type release struct {
	Project  string `json:"project_name"`
	Builds   []struct{ Main, Binary string }
	Archives []struct {
		ID      string
		Formats []string
		Name    string `json:"name_template"`
	}
	Checksum struct {
		Name  string `json:"name_template"`
		IDs   []string
		Files []file `json:"extra_files"`
	}
	Signs   []struct{ Artifacts string }
	Release struct {
		Files []file `json:"extra_files"`
	}
}

type file struct {
	Glob string
	Name string `json:"name_template"`
}

func TestReleaseLayout(t *testing.T) {
	r := release{}
	if err := yaml.Unmarshal([]byte(read(t, "../.goreleaser.yml")), &r); err != nil {
		t.Fatal(err)
	}
	const stem = "{{ .ProjectName }}_{{ .Version }}_"
	manifest := []file{{Glob: "terraform-provider/terraform-registry-manifest.json", Name: stem + "manifest.json"}}
	archive := r.Archives[0]
	for what, holds := range map[string]bool{
		"the project":                     r.Project == "terraform-provider-breakwater",
		"the program":                     r.Builds[0].Main == "./terraform-provider" && r.Builds[0].Binary == "{{ .ProjectName }}_v{{ .Version }}",
		"the zips":                        slices.Equal(archive.Formats, []string{"zip"}) && archive.Name == stem+"{{ .Os }}_{{ .Arch }}",
		"the sums":                        r.Checksum.Name == stem+"SHA256SUMS",
		"the sums are those of the zips":  slices.Equal(r.Checksum.IDs, []string{archive.ID}),
		"the sums are signed":             r.Signs[0].Artifacts == "checksum",
		"the manifest is among the sums":  slices.Equal(r.Checksum.Files, manifest),
		"the manifest is in the release":  slices.Equal(r.Release.Files, manifest),
		"the protocol is the provider's":  protocol(t) == "6.0",
		"there is one build, one archive": len(r.Builds) == 1 && len(r.Archives) == 1,
	} {
		if !holds {
			t.Errorf("not as registries want it: %s", what)
		}
	}
}

func protocol(t *testing.T) string {
	t.Helper()
	manifest := struct {
		Version  int
		Metadata struct {
			Protocols []string `json:"protocol_versions"`
		}
	}{}
	if err := json.Unmarshal([]byte(read(t, "../terraform-registry-manifest.json")), &manifest); err != nil || manifest.Version != 1 {
		t.Fatalf("the manifest is of version %d: %v", manifest.Version, err)
	}
	return strings.Join(manifest.Metadata.Protocols, " ")
}
