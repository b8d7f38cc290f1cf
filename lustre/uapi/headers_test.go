package uapi

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// headers is what a compiler said of the headers of one version of Lustre: sizes and
// offsets of structs, numbers of requests, constants.
func headers(t *testing.T, path string) map[string]int64 {
	t.Helper()
	f := must.Get(os.Open(path))(t)
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
			said["sizeof "+key] = number(t, w[6])
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
	must.Do(t, lines.Err())
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
		"LL_IOC_LOV_SETSTRIPE": IocSetStripe, "LL_IOC_LMV_SETSTRIPE": IocSetDirStripe,
		"LL_IOC_LMV_GETSTRIPE": IocGetDirStripe, "LL_IOC_LMV_SET_DEFAULT_STRIPE": IocSetDefaultStripe,
		"LL_IOC_GETOBDCOUNT": IocTargetCount, "IOC_OBD_STATFS": IocTargetStatfs, "OBD_IOC_QUOTACTL": IocQuotactl,
		"LL_IOC_PROJECT": IocNamedProject, "FS_IOC_FSGETXATTR": IocGetFSXattr, "FS_IOC_FSSETXATTR": IocSetFSXattr,
		"OBD_IOC_GETDTNAME": IocLOVName, "LL_SUPER_MAGIC": SuperMagic,
		"LL_IOC_PATH2FID": IocPathToFID, "OBD_IOC_FID2PATH": IocFIDToPath, "LL_IOC_GETPARENT": IocGetParent, "LL_IOC_GET_MDTIDX": IocMDTIndex,
		"LL_IOC_DATA_VERSION": IocDataVersion, "LL_IOC_GROUP_LOCK": IocGroupLock, "LL_IOC_GROUP_UNLOCK": IocGroupUnlock,
		"LL_IOC_SET_LEASE_OLD": IocSetLease, "LL_IOC_GET_LEASE": IocGetLease, "LL_IOC_LOV_SWAP_LAYOUTS": IocSwapLayouts, "LL_IOC_LADVISE": IocLadvise,
		"LL_IOC_HSM_STATE_GET": IocHSMState, "LL_IOC_HSM_STATE_SET": IocHSMSetState, "LL_IOC_HSM_REQUEST": IocHSMRequest, "LL_IOC_HSM_ACTION": IocHSMAction,
		"LL_IOC_HSM_CT_START": IocCopytool, "LL_IOC_HSM_COPY_START": IocCopyStart, "LL_IOC_HSM_COPY_END": IocCopyEnd, "LL_IOC_HSM_PROGRESS": IocCopyProgress,
		"LL_IOC_FID2MDTIDX": IocFIDToMDT, "OBD_IOC_CHLG_SET_FLAGS": IocChangeFlags,
		"sizeof lu_fid": FIDSize, "sizeof getinfo_fid2path": fidToPathSize, "sizeof getparent": getParentSize, "sizeof ioc_data_version": dataVersionSize,
		"sizeof lustre_swap_layouts": swapSize, "sizeof llapi_ladvise_hdr": ladviseHeader, "sizeof llapi_lu_ladvise": ladviseSize, "sizeof lustre_som_attrs": lazySizeSize,
		"sizeof hsm_user_state": hsmStateSize, "sizeof hsm_state_set": hsmSetSize, "sizeof hsm_request": hsmRequestSize, "sizeof hsm_user_item": hsmItemSize,
		"sizeof hsm_current_action": hsmActionSize, "sizeof hsm_action_item": sizeItem, "sizeof hsm_action_list": sizeList, "sizeof hsm_copy": sizeCopy,
		"sizeof hsm_progress": sizeProgress, "sizeof lustre_kernelcomm": registrationSize,
		"sizeof changelog_rec": changeSize, "sizeof changelog_ext_rename": renameSize, "sizeof changelog_ext_jobid": jobSize, "sizeof changelog_ext_extra_flags": extraSize,
		"sizeof changelog_ext_uidgid": ownerSize, "sizeof changelog_ext_nid": nidSize, "sizeof changelog_ext_openmode": openModeSize, "sizeof changelog_ext_xattr": xattrNameSize,
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
	}
}

// TestFieldsOfHeaders: what is written for a kernel is where its headers have it. To be
// written and read as the same says nothing of that.
func TestFieldsOfHeaders(t *testing.T) {
	t.Parallel()
	file := lustre.FID{Seq: 0x0102030405060708, OID: 0x090a0b0c, Ver: 0x0d0e0f10}
	other := lustre.FID{Seq: 0x1112131415161718}
	item := ActionItem{Action: CopyRestore, FID: file, Data: other, Extent: Extent{0x2122232425262728, 5}, Cookie: 0x3132333435363738, GID: 0x4142434445464748}
	list := ActionList{Compound: 0x5152535455565758, Flags: 0x6162636465666768, ArchiveID: 0x71727374, Name: "lab", Items: []ActionItem{item}}
	copied := Copy{DataVersion: 9, Flags: 0x8182, Errno: 0x9192, Item: item}
	progress := Progress{FID: file, Cookie: 0x3132333435363738, Extent: Extent{0x2122232425262728, 5}, Flags: 0x8182, Errno: 0x9192}
	state := lustre.HSMState{Archived: 0x0d, ArchiveID: 0x71727374, Running: true, Doing: lustre.Restore}
	request := HSMRequest{Action: lustre.Archive, Archive: 7, Flags: 5, Items: []HSMItem{{File: file}}, Data: []byte("data")}
	change := lustre.Change{Index: 0x77, Time: time.Unix(3, 4), Type: lustre.ChangeUnlink, Flags: 3, File: file, Parent: other, Name: "name"}
	project := NamedProject{Set: true, ID: 4242, XFlags: InheritProject, Name: "n"}
	for structure, c := range map[string]struct {
		b    []byte
		says map[string]uint64 // of wide fields the first eight bytes
	}{
		"hsm_action_item":     {item.append(nil), map[string]uint64{"hai_fid": file.Seq, "hai_dfid": other.Seq, "hai_extent": item.Extent.Off, "hai_cookie": item.Cookie, "hai_gid": item.GID}},
		"hsm_action_list":     {list.Encode(), map[string]uint64{"hal_count": 1, "hal_compound_id": list.Compound, "hal_flags": list.Flags, "hal_archive_id": uint64(list.ArchiveID)}},
		"hsm_copy":            {copied.Encode(), map[string]uint64{"hc_flags": 0x8182, "hc_errval": 0x9192, "hc_hai": uint64(CopyRestore)<<32 | sizeItem}},
		"hsm_progress":        {progress.Encode(), map[string]uint64{"hp_cookie": progress.Cookie, "hp_extent": progress.Extent.Off, "hp_flags": 0x8182, "hp_errval": 0x9192}},
		"hsm_user_state":      {EncodeHSMState(state), map[string]uint64{"hus_states": 0x0d, "hus_archive_id": 0x71727374, "hus_in_progress_state": 2, "hus_in_progress_action": 11}},
		"hsm_state_set":       {EncodeHSMSet(0x10, 0x20, 9), map[string]uint64{"hss_valid": 7, "hss_archive_id": 9, "hss_setmask": 0x10, "hss_clearmask": 0x20}},
		"hsm_request":         {EncodeHSMRequest(request), map[string]uint64{"hr_action": 10, "hr_archive_id": 7, "hr_flags": 5, "hr_itemcount": 1, "hr_data_len": 4}},
		"ioc_data_version":    {EncodeDataVersion(FlushAll), map[string]uint64{"idv_flags": FlushAll}},
		"lustre_swap_layouts": {EncodeSwap(Swap{Other: 7, Group: 8, First: 9}), map[string]uint64{"sl_fd": 7, "sl_gid": 8, "sl_dv1": 9}},
		"llapi_lu_ladvise":    {EncodeAdvice(false, Advice{WillRead, 5, 6})[ladviseHeader:], map[string]uint64{"lla_start": 5, "lla_end": 6}},
		"changelog_rec": {AppendChange(nil, change, false), map[string]uint64{"cr_namelen": 4, "cr_flags": 0x1003, "cr_type": 6, "cr_index": 0x77,
			"cr_time": 3<<30 | 4, "cr_tfid": file.Seq, "cr_pfid": other.Seq}},
		"getinfo_fid2path": {EncodeFIDToPath(file, 3), map[string]uint64{"gf_fid": file.Seq, "gf_linkno": 3, "gf_pathlen": MaxPath}},
		"getparent":        {EncodeGetParent(3), map[string]uint64{"gp_linkno": 3, "gp_name_size": maxName}},
		"lu_project":       {encoded(t, project.Encode), map[string]uint64{"project_type": 1, "project_id": 4242, "project_xflags": 0x200}},
		"obd_statfs": {encoded(t, (&Statfs{1, 2, 3, 4, 5, 6, [40]byte{7}, 8, 9, 10, 11, 12, 13, [28]byte{}}).Encode), map[string]uint64{"os_type": 1, "os_blocks": 2, "os_bfree": 3,
			"os_bavail": 4, "os_files": 5, "os_ffree": 6, "os_fsid": 7, "os_bsize": 8, "os_namelen": 9, "os_maxbytes": 10, "os_state": 11, "os_fprecreated": 12}},
		"if_quotactl": {encoded(t, (&Quotactl{Command: 1, Type: 2, ID: 3, Stat: 4, Target: 5, Index: 6, BlockGrace: 7, HardKiB: 8, OBDType: "a", UUID: "b"}).Encode), map[string]uint64{
			"qc_cmd": 1, "qc_type": 2, "qc_id": 3, "qc_stat": 4, "qc_valid": 5, "qc_idx": 6, "qc_dqinfo": 7, "qc_dqblk": 8, "obd_type": 'a', "obd_uuid": 'b'}},
	} {
		for _, version := range []string{"2.15.8", "2.17.0", "master-2.17.57"} {
			said := headers(t, "testdata/abi-"+version+".txt")
			for field, want := range c.says {
				key := structure + "." + field
				at, ok := said[key]
				if !ok {
					t.Errorf("%s says nothing of %s", version, key)
					continue
				}
				wide := append(c.b[at:len(c.b):len(c.b)], make([]byte, 8)...)
				if got := le.Uint64(wide) << (64 - 8*min(said["sizeof "+key], 8)) >> (64 - 8*min(said["sizeof "+key], 8)); got != want {
					t.Errorf("%s: %s at %d is %#x, want %#x", version, key, at, got, want)
				}
			}
		}
	}
}

func encoded(t *testing.T, encode func() ([]byte, error)) []byte {
	t.Helper()
	b := must.Get(encode())(t)
	return b
}
