package realworkloads_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// shape is a workload with all objects above its pods, and what Breakwater must make of it. It is read from a file of testdata/shapes.
type shape struct {
	// name is that of the file.
	name string
	// About describes what the floor depends on.
	About string `json:"about"`
	// Protector is the spec of the PodProtector, or Policy that of the ProtectionPolicy that creates it.
	Protector *v1alpha1.PodProtectorSpec     `json:"protector"`
	Policy    *v1alpha1.ProtectionPolicySpec `json:"policy"`
	// Covers is the label selector of the pods that are protected. It is the default of the steps.
	Covers string `json:"covers"`
	Steps  []step `json:"steps"`
}

// step is a change of the workload, and the state that must follow.
type step struct {
	Claim string `json:"claim"`
	// InCore has objects of the core, and Objects has objects of the worker. Owner references need no UID. An object with copies: N is
	// created N times, with $(i) replaced by 0 to N-1.
	InCore  []json.RawMessage `json:"inCore"`
	Objects []json.RawMessage `json:"objects"`
	// Patches change objects of the worker.
	Patches []patch `json:"patches"`
	// Protector is a merge patch of the protector's spec.
	Protector json.RawMessage `json:"protector"`
	// Covers is the selector of the pods that are protected from now on.
	Covers string `json:"covers"`
	// Pods is the number of available pods that it selects in the end. Gone selects pods that must be gone by then.
	Pods int    `json:"pods"`
	Gone string `json:"gone"`
	// Expected is the right number of expected pods, and Floor the right floor.
	Expected int32 `json:"expected"`
	Floor    int32 `json:"floor"`
	// Unknown is set if no object says how many pods there should be. It has the fragments of the message that says so.
	Unknown []string `json:"unknown"`
}

// patch is a merge patch of an object or of one of its subresources.
type patch struct {
	APIVersion  string          `json:"apiVersion"`
	Kind        string          `json:"kind"`
	Name        string          `json:"name"`
	Subresource string          `json:"subresource"`
	Patch       json.RawMessage `json:"patch"`
}

// readShapes reads all files of testdata/shapes.
func readShapes(t *testing.T) []*shape {
	t.Helper()
	files, err := filepath.Glob("testdata/shapes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []*shape
	for _, file := range files {
		s, err := readShape(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, s)
	}
	return all
}

func readShape(file string) (*shape, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &shape{name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
	if err := yaml.UnmarshalStrict(raw, s); err != nil {
		return nil, err
	}
	switch {
	case s.About == "" || s.Covers == "" || len(s.Steps) == 0:
		return nil, fmt.Errorf("want about, covers and steps")
	case (s.Protector == nil) == (s.Policy == nil):
		return nil, fmt.Errorf("want either a protector or a policy")
	}
	for i := range s.Steps {
		if s.Steps[i].Covers == "" {
			s.Steps[i].Covers = s.Covers
			if i > 0 {
				s.Steps[i].Covers = s.Steps[i-1].Covers
			}
		}
	}
	return s, nil
}

// parseObjects returns the objects of a step, each as often as it has copies.
func parseObjects(all []json.RawMessage) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, raw := range all {
		var number struct {
			Copies *int `json:"copies"`
		}
		if err := json.Unmarshal(raw, &number); err != nil {
			return nil, err
		}
		copies := 1
		if number.Copies != nil {
			copies = *number.Copies
		}
		for i := range copies {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON([]byte(strings.ReplaceAll(string(raw), "$(i)", strconv.Itoa(i)))); err != nil {
				return nil, err
			}
			delete(object.Object, "copies")
			objects = append(objects, object)
		}
	}
	return objects, nil
}
