package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

const stateFile = "federation.json"

// State describes the running components of a federation for programs other than the one that started it.
type State struct {
	Topology   string         `json:"topology"`
	Supervisor Process        `json:"supervisor"`
	Usable     bool           `json:"usable"`
	Kubeconfig string         `json:"kubeconfig"`
	Clusters   []ClusterState `json:"clusters"`
}

// ClusterState is one cluster.
type ClusterState struct {
	Name       string            `json:"name"`
	Roles      []federation.Role `json:"roles"`
	Server     string            `json:"server"`
	Kubeconfig string            `json:"kubeconfig"`
	Components []ComponentState  `json:"components"`
}

// ComponentState is the newest process of one component.
type ComponentState struct {
	Name    federation.Component `json:"name"`
	Process Process              `json:"process"`
	Log     string               `json:"log"`
}

// Process names one process. A pid alone could belong to another process later; its start tells them apart.
type Process struct {
	PID     int       `json:"pid"`
	Start   string    `json:"start"` // as reported by the operating system
	Started time.Time `json:"started"`
}

// Status of a process.
type Status = subprocess.Status

// The possible statuses.
const (
	Running = subprocess.Running
	Frozen  = subprocess.Frozen
	Gone    = subprocess.Gone
)

func newProcess(pid int, started time.Time) Process {
	start, _, err := subprocess.Inspect(pid)
	if err != nil {
		// The process exited already. No process has this start, so it is not confused with another one.
		start = "unknown"
	}
	return Process{PID: pid, Start: start, Started: started}
}

// Status returns the current status of the process.
func (p Process) Status() Status {
	start, status, err := subprocess.Inspect(p.PID)
	if err != nil || start != p.Start {
		return Gone
	}
	return status
}

// Signal sends a signal to the process if it is still the same one.
func (p Process) Signal(signal syscall.Signal) error {
	if p.Status() == Gone {
		return nil
	}
	if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func (p Process) kill() error { return p.Signal(syscall.SIGKILL) }

// ReadState reads the state that the program which started the federation wrote to its directory. That program may
// have exited.
func ReadState(folder string) (*State, error) {
	raw, err := os.ReadFile(filepath.Join(folder, stateFile))
	if err != nil {
		return nil, err
	}
	state := &State{}
	if err := json.Unmarshal(raw, state); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, stateFile), err)
	}
	return state, nil
}

// record changes the state and writes it to the state file.
func (f *Federation) record(change func(*State)) error {
	f.stateMu.Lock()
	defer f.stateMu.Unlock()
	change(&f.state)
	raw, err := json.MarshalIndent(f.state, "", "  ")
	if err != nil {
		return err
	}
	// The rename makes the write atomic for readers.
	path := filepath.Join(f.options.Dir, stateFile)
	if err := os.WriteFile(path+".new", append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the state of the federation: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the state of the federation: %w", err)
	}
	return nil
}

func (f *Federation) recordLaunch(c *Cluster, component federation.Component, p *subprocess.Process) error {
	return f.record(func(s *State) {
		for i := range s.Clusters {
			if s.Clusters[i].Name != c.spec.Name {
				continue
			}
			cluster := &s.Clusters[i]
			cluster.Server = c.identities.admin.Host
			entry := ComponentState{
				Name: component, Process: newProcess(p.Cmd.Process.Pid, p.Started), Log: c.layout.log(component),
			}
			for j := range cluster.Components {
				if cluster.Components[j].Name == component {
					cluster.Components[j] = entry
					return
				}
			}
			cluster.Components = append(cluster.Components, entry)
		}
	})
}

func (f *Federation) initialState() State {
	state := State{
		Topology:   f.topology.Name,
		Supervisor: newProcess(os.Getpid(), time.Now()),
		Kubeconfig: f.Kubeconfig(),
	}
	for _, cluster := range f.Members {
		state.Clusters = append(state.Clusters, ClusterState{
			Name: cluster.spec.Name, Roles: cluster.spec.Roles, Kubeconfig: cluster.Kubeconfig(),
		})
	}
	return state
}
