// Package floorshare divides the floor of a protector among cells, so that each cell can decide alone on its own part while the core cluster is
// unreachable. It is pure.
//
// A cell with a share has a PodProtector in its own cluster, whose minAvailable is the share and whose only cell is this one. The core
// records all shares in the protector. With L_c the share that the core records, l_c the share in the cell's cluster, A_c and H_c the
// cell's pods and reservations, and F the floor:
//
//	S1  A removal in a cell with a share is admitted only if A_c − |H_c| − 1 ≥ l_c, by compare-and-swap on the object in the cell.
//	S2  l_c ≥ L_c. A closed share admits nothing, as if l_c were infinite.
//	S3  L_c falls only in a write of the protector after which Σ L_c ≥ F. A cell without a share counts for A_c − |H_c|, and a discounted one
//	    for 0 unless it is c. The record of a discounted cell is dropped only in a write after which this holds for the other cells.
//	S4  L_c falls only in a write after which Σ min(L_c, A_c − |H_c|) ≥ F, and rises if that sum is too low. A closed share counts, too: its
//	    reservations are open. A lost share counts for the L_c of its loss. While F is unknown, the shares admit nothing.
//	S5  After a restore of the core, nothing relies on a record of a share until its cell has confirmed it. After a restore of a cell's
//	    cluster, its share is closed until it has entered again.
//	S6  A cell decides on its share exactly while the core records one.
//
// So each cell keeps L_c pods whatever it can reach, and all cells together keep the floor. No clock is compared.
//
// # Two objects, no transaction
//
// A step writes both objects, one after the other, and may stop or be delayed at any point, also while another process performs another
// step for the same cell. Each write is a compare-and-swap, and each changes its object, so that it invalidates all versions that were read
// before. A read of the share may be late, except where NeedsLive says that the write of the protector relies on it. S2 and S6 hold because of
// the order:
//
//	Raise, Confirm, Leave:  read the protector, write the share, write the protector at the version that was read.
//	Lower, Enter:           read the share, write the protector, write the share at the version that was read.
//
// Suppose that a Raise and a Lower interleave so that the Raise writes the protector last and the Lower the share. Then the Raise has
// written the share before the Lower read it, because the Lower's last write succeeded. So the Lower has written the protector after the Raise
// read it, and the Raise's last write fails. The same holds for Leave and Enter.
package floorshare
