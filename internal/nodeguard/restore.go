package nodeguard

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// restored is what an earlier guard has stored and this one uses.
type restored struct {
	pods    []podhold.Entry
	objects map[types.UID]encoded
	// rejected is the number of pods that it does not use, by reason.
	rejected map[podhold.Rejection]int
}

// restore reads the stored pods for the guard of a node, and removes those that belong to others (rule N9).
func (s *store) restore(node string, log logr.Logger) restored {
	pods, objects, damaged := s.load()
	r := restored{objects: objects, rejected: map[podhold.Rejection]int{podhold.Damaged: len(damaged)}}
	if len(damaged) > 0 {
		log.Error(errors.Join(damaged...), "Ignoring stored pods")
	}
	var stored podhold.Machine
	if err := s.readJSON(machineFile, &stored); err != nil {
		log.Error(err, "Failed to read which machine stored the pods; they count as its own")
	}
	var left []error
	for _, e := range pods {
		why := podhold.RejectionOf(e.Pod, node, stored, s.machine)
		if why == "" {
			r.pods = append(r.pods, e)
			continue
		}
		r.rejected[why]++
		log.Error(nil, "Dropping stored pod, which does not belong to this node", "reason", why, "pod", e.Pod.NamespacedName, "uid", e.Pod.UID,
			"held", e.IsHeld(), "podNode", e.Pod.Node, "node", node, "storedBy", stored, "machine", s.machine)
		delete(r.objects, e.Pod.UID)
		left = append(left, s.drop(e.Pod.UID))
	}
	if err := errors.Join(left...); err != nil {
		log.Error(err, "Failed to remove stored pods of another node, trying again at the next start")
		return r // the next guard must reject them, too
	}
	known := podhold.Machine{System: cmp.Or(s.machine.System, stored.System), OS: cmp.Or(s.machine.OS, stored.OS)}
	if err := s.writeJSON(machineFile, known); err != nil {
		log.Error(err, "Failed to store which machine this is")
	}
	return r
}

const machineFile = "machine.json"

// ReadMachine reads the identity of the machine whose file system is mounted at root.
func ReadMachine(root string) podhold.Machine {
	first := func(files ...string) string {
		for _, file := range files {
			raw, err := os.ReadFile(filepath.Join(root, file))
			if text := strings.ToLower(strings.Trim(string(raw), "\x00 \n")); err == nil && text != "" {
				return text
			}
		}
		return ""
	}
	return podhold.Machine{
		System: first("/sys/class/dmi/id/product_uuid", "/proc/device-tree/system-id", "/proc/device-tree/vm,uuid"),
		OS:     first("/etc/machine-id"),
	}
}
