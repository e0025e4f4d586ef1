// Package podhold decides which pods a kubelet may be told are gone. A kubelet kills the containers of every pod that disappears from its
// API server, even if no client deleted it: because etcd lost it, was restored from an older backup, or belongs to another cluster. The
// node guard (internal/nodeguard) sits between the two and edits what the kubelet sees according to this package.
//
// The rules:
//
//   - N1: a pod that was seen with a deletionTimestamp was deleted by a client, and may disappear.
//   - N2: a pod that is not protected, has ended, has not started on this node, or mirrors a static pod may disappear.
//   - N3: a pod whose removal was admitted may disappear. The webhook records admitted removals that have no grace period.
//   - N4: every other pod that disappears is held: the kubelet still sees it as it was. A pod is also held while the answer to N3 is unknown.
//   - N5: a held pod may disappear when its removal turns out to be admitted, a user releases it, another pod of its name
//     runs already, rule N8 holds, or its retention ends. Nothing else ends it. Only time that guards have measured counts for the retention.
//   - N6: a kubelet sees at most one pod of a name. The held pod wins: a new pod of its name stays hidden until the held one has ended,
//     unless it is the held one's registration, or the held pod itself, which a stale list did not have.
//   - N7: a registration is a pod that the API server has for a held pod: the kubelet sees it under the held pod's UID. Only a pod of the
//     same owner, with the same containers, on this node, none of which has started, can become one.
//   - N8: a held pod that cannot be registered ends when its protectors have as many pods as their floors without it. The API server does not
//     have the pod, so that no count includes it, and ending it takes nothing from any: all guards may end their pods by one count. The count
//     must be later than the loss. So the guard asks for it, and an answer names the question.
//   - N9: a guard uses only stored pods of its own node that its own machine stored. A disk that was copied from another node, or that a new
//     machine of the same name got, has pods whose containers do not run there, and that clients may have deleted since.
//
// It is pure.
package podhold
