package abi

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// headers is what a compiler said of the headers of one version of Lustre: sizes and
// offsets of structs, numbers of requests, constants.
func headers(t *testing.T, path string) map[string]int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	said := map[string]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		w := strings.Fields(lines.Text())
		var key, value string
		switch {
		case len(w) == 4 && w[0] == "sizeof":
			key, value = "sizeof "+w[2], w[3]
		case len(w) == 7 && w[0] == "off":
			key, value = w[2]+w[3], w[4]
		case len(w) == 3 && (w[0] == "ioctl" || w[0] == "const"):
			key, value = w[1], w[2]
		case len(w) == 3 && w[1] == "off":
			key, value = w[0], w[2]
		case len(w) == 5 && w[0] == "objects":
			said["v1 objects"], said["v3 objects"] = number(t, w[2]), number(t, w[4])
			continue
		default:
			t.Fatalf("%s: %q", path, lines.Text())
		}
		said[key] = number(t, value)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return said
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	var n int64
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return n
}

// Every size, offset and number that the code has is that of the headers.
func TestNumbersOfHeaders(t *testing.T) {
	t.Parallel()
	ours := map[string]int64{
		"sizeof lov_user_md_v1": sizeV1, "sizeof lov_user_md_v3": sizeV3, "sizeof lov_user_ost_data_v1": sizeObject,
		"v1 objects": sizeV1, "v3 objects": sizeV3, "lov_user_md_v3.lmm_magic": 0, "lov_user_md_v3.lmm_pattern": 4,
		"lov_user_md_v3.lmm_oi": 8, "lov_user_md_v3.lmm_stripe_size": 24, "lov_user_md_v3.lmm_stripe_count": 28,
		"lov_user_md_v3.lmm_stripe_offset": 30, "lov_user_md_v3.lmm_pool_name": offsetPool,
		"lov_user_ost_data_v1.l_ost_oi": 0, "lov_user_ost_data_v1.l_ost_gen": 16, "lov_user_ost_data_v1.l_ost_idx": 20,
		"sizeof lov_comp_md_v1": sizeComposite, "sizeof lov_comp_md_entry_v1": sizeEntry, "lcm_entries": sizeComposite,
		"lov_comp_md_v1.lcm_size": 4, "lov_comp_md_v1.lcm_layout_gen": 8, "lov_comp_md_v1.lcm_flags": 12,
		"lov_comp_md_v1.lcm_entry_count": 14, "lov_comp_md_v1.lcm_mirror_count": headKept - 2,
		"lov_comp_md_entry_v1.lcme_id": 0, "lov_comp_md_entry_v1.lcme_flags": 4, "lov_comp_md_entry_v1.lcme_extent": 8,
		"lov_comp_md_entry_v1.lcme_offset": 24, "lov_comp_md_entry_v1.lcme_size": 28, "lov_comp_md_entry_v1.lcme_layout_gen": entryKept,
		"sizeof lov_foreign_md": sizeForeign, "lov_foreign_md.lfm_length": 4, "lov_foreign_md.lfm_type": 8, "lov_foreign_md.lfm_flags": 12,
		"sizeof lmv_user_md_v1": SizeStriping, "lum_objects": offsetShards, "sizeof lmv_user_mds_data": SizeShard,
		"lmv_user_md_v1.lum_stripe_count": 4, "lmv_user_md_v1.lum_stripe_offset": 8, "lmv_user_md_v1.lum_hash_type": 12,
		"lmv_user_md_v1.lum_type": 16, "lmv_user_md_v1.lum_max_inherit": 20, "lmv_user_md_v1.lum_max_inherit_rr": 21,
		"lmv_user_md_v1.lum_pool_name": 32, "lmv_user_mds_data.lum_mds": shardMDT,
		"sizeof obd_statfs": SizeStatfs, "obd_statfs.os_blocks": 8, "obd_statfs.os_bavail": 24, "obd_statfs.os_files": 32,
		"obd_statfs.os_ffree": 40, "obd_statfs.os_bsize": 88, "obd_statfs.os_namelen": 92, "obd_statfs.os_state": 104,
		"sizeof obd_ioctl_data": sizeOBD, "ioc_bulk": sizeOBD, "obd_ioctl_data.ioc_type": typeOBD,
		"obd_ioctl_data.ioc_pbuf1": OffsetBuffer1, "obd_ioctl_data.ioc_pbuf2": OffsetBuffer2,
		"obd_ioctl_data.ioc_plen1": OffsetBuffer1 - 8, "obd_ioctl_data.ioc_plen2": OffsetBuffer2 - 8,
		"obd_ioctl_data.ioc_inllen1": int64(inlineOBD[0]), "obd_ioctl_data.ioc_inllen2": int64(inlineOBD[1]),
		"obd_ioctl_data.ioc_inllen3": int64(inlineOBD[2]), "obd_ioctl_data.ioc_inllen4": int64(inlineOBD[3]),
		"sizeof if_quotactl": sizeQuotactl, "qc_poolname": sizeQuotactl, "if_quotactl.qc_type": 4, "if_quotactl.qc_id": 8,
		"if_quotactl.qc_stat": 12, "if_quotactl.qc_valid": 16, "if_quotactl.qc_idx": 20, "if_quotactl.qc_dqinfo": 24,
		"if_quotactl.qc_dqblk": 48, "if_quotactl.obd_type": 120, "if_quotactl.obd_uuid": 136, "obd_dqblk.dqb_valid": 112 - 48,
		"obd_dqblk.dqb_bhardlimit": 0, "obd_dqblk.dqb_bsoftlimit": 8, "obd_dqblk.dqb_curspace": 16, "obd_dqblk.dqb_ihardlimit": 24,
		"obd_dqblk.dqb_isoftlimit": 32, "obd_dqblk.dqb_curinodes": 40, "obd_dqblk.dqb_btime": 48, "obd_dqblk.dqb_itime": 56,
		"sizeof fsxattr": SizeFSXattr, "sizeof lu_project": sizeProject, "lu_project.project_id": 4, "lu_project.project_xflags": 8,
		"LL_IOC_LOV_SETSTRIPE": IocSetStripe, "LL_IOC_LOV_GETSTRIPE": IocGetStripe, "LL_IOC_LMV_SETSTRIPE": IocSetDirStripe,
		"LL_IOC_LMV_GETSTRIPE": IocGetDirStripe, "LL_IOC_LMV_SET_DEFAULT_STRIPE": IocSetDefaultStripe,
		"LL_IOC_GETOBDCOUNT": IocTargetCount, "IOC_OBD_STATFS": IocTargetStatfs, "OBD_IOC_QUOTACTL": IocQuotactl,
		"LL_IOC_PROJECT": IocNamedProject, "FS_IOC_FSGETXATTR": IocGetFSXattr, "FS_IOC_FSSETXATTR": IocSetFSXattr,
		"OBD_IOC_GETDTNAME": IocLOVName, "OBD_IOC_GETMDNAME": IocLMVName, "LL_SUPER_MAGIC": SuperMagic,
	}
	paths, err := filepath.Glob("testdata/abi-*.txt")
	if err != nil || len(paths) != 3 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		said := headers(t, path)
		for what, n := range ours {
			if got, ok := said[what]; !ok || got != n {
				t.Errorf("%s: %s is %#x (said: %v), and %#x here", filepath.Base(path), what, got, ok, n)
			}
		}
		// What 2.15 does not have in its headers, or has with one bit more (see DelayCreate).
		old := strings.Contains(path, "2.15")
		if got := said["O_LOV_DELAY_CREATE"]; got&DelayCreate != DelayCreate || !old && got != DelayCreate {
			t.Errorf("%s: O_LOV_DELAY_CREATE is %#x", path, got)
		}
		if said["obdo.o_flags"]+said["obd_ioctl_data.ioc_obdo1"] != flagsOBD {
			t.Errorf("%s: o_flags is at %d", path, said["obdo.o_flags"])
		}
		if got := said["OBD_IOC_GETUUID"]; !old && got != IocUUID {
			t.Errorf("%s: OBD_IOC_GETUUID is %#x", path, got)
		}
	}
}
