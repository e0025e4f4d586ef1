package cli

import "testing"

func TestResourceNames(t *testing.T) {
	for text, want := range map[string]string{
		"web": "web", "podprotector/web": "web", "PPR/web": "web", "podprotectors.breakwater.dev/web": "web",
		"podprotector.v1alpha1.breakwater.dev/Web.v1": "Web.v1", "": "", "/web": "web", "ppr/": "", "pod/web": "", "ppr/web/0": "",
	} {
		got, err := ProtectorResource.Parse(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q parses as %q (error %v), want %q", text, got, err, want)
		}
	}
}
