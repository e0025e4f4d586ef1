package podhold

// Machine identifies the machine of a node. Fields that are not known are empty.
type Machine struct {
	// System is the UUID that the firmware or the hypervisor gives the machine.
	System string `json:"system,omitempty"`
	// OS is the ID of the installed operating system. A disk image can carry it to other machines, and some systems create it at each boot.
	OS string `json:"os,omitempty"`
}

// IsOther reports whether m is certainly not the machine other. The OS decides only where a System is not known.
func (m Machine) IsOther(other Machine) bool {
	if m.System != "" && other.System != "" {
		return m.System != other.System
	}
	return m.OS != "" && other.OS != "" && m.OS != other.OS
}

// Rejection is why a guard must not use a pod that is stored on its disk. The zero value means that it may.
type Rejection string

// The reasons.
const (
	OtherNode    Rejection = "OtherNode"
	OtherMachine Rejection = "OtherMachine"
	// Damaged is not decided here: such a pod cannot be read.
	Damaged Rejection = "Damaged"
)

// Rejections returns all reasons.
func Rejections() []Rejection { return []Rejection{OtherNode, OtherMachine, Damaged} }

// RejectionOf decides whether the guard of a node may use a stored pod (rule N9). stored is the machine that stored it, and here the one that the
// guard runs on. The UID of the Node does not count: a Node that was lost with its pods gets another one, and that is when they must be held.
func RejectionOf(p Pod, node string, stored, here Machine) Rejection {
	switch {
	case p.Node != node:
		return OtherNode
	case stored.IsOther(here):
		return OtherMachine
	default:
		return ""
	}
}
