package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

func TestX(t *testing.T) {
	c, namespace := newClient(t), testplane.Namespace(t)
	_ = strings.Replace
	wantVerdict(t, c, object(t, "PodSchedulingPolicy", namespace, `{spec: {podSelector: {}, nodeName: a}}`), "")
}
