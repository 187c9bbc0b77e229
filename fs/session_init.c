// SPDX-License-Identifier: Apache-2.0
#include "fs/session_private.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/ops.h"
#include "fs/request.h"

enum { INIT_READ_BYTES = 1 << 20 };

static void want(struct fuse_conn_info *conn, uint64_t capability)
{
	/* What the kernel does not offer is not fatal: libfuse and we have the slower way. */
	if (!fuse_set_feature_flag(conn, capability))
		log_line(LOG_DEBUG, "init", "feature %#llx is not offered",
			 (unsigned long long)capability);
}

/* How many layers of stacked file systems may lie below us: the kernel's count, less one. */
static unsigned backing_depth(const struct overlay *ov)
{
	struct statfs st;

	return fstatfs(ov->tree.mount_fd, &st) == 0 && (st.f_type == OVERLAYFS_SUPER_MAGIC ||
							st.f_type == FUSE_SUPER_MAGIC) ?
		       1 :
		       0;
}

static bool has_no_atime(const struct overlay *ov)
{
	struct statvfs st;

	return fstatvfs(ov->tree.mount_fd, &st) == 0 && st.f_flag & ST_NOATIME;
}

/*
 * Where nobody but us changes the tree the kernel knows itself of each change of a file's content. Other times are then those
 * of its own writes, and for them it would drop all that it has cached of the file, with the first read after each. What was
 * agreed once stays so.
 */
static bool must_revalidate(const struct overlay *ov)
{
	const struct shared_header *h = ov->shared.header;

	if (h->init_reply_len > 0 && h->init_reply_len <= SHARED_INIT_MAX)
		return request_reply_revalidates(h->init_reply, h->init_reply_len);
	return !ov->is_exclusive;
}

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
	struct overlay *ov = userdata;

	want(conn, FUSE_CAP_HANDLE_KILLPRIV_V2);
	want(conn, FUSE_CAP_POSIX_ACL);
	want(conn, FUSE_CAP_DONT_MASK);
	want(conn, FUSE_CAP_PARALLEL_DIROPS);
	want(conn, FUSE_CAP_EXPORT_SUPPORT);
	/* Following a link changes its access time, unless the mount has none. */
	if (has_no_atime(ov))
		want(conn, FUSE_CAP_CACHE_SYMLINKS);
	want(conn, FUSE_CAP_SETXATTR_EXT);
	want(conn, FUSE_CAP_READDIRPLUS);
	want(conn, FUSE_CAP_READDIRPLUS_AUTO);
	/* Requests are wanted as bytes in memory (request.h); a kept one may be served twice. */
	fuse_unset_feature_flag(conn, FUSE_CAP_SPLICE_READ);
	fuse_unset_feature_flag(conn, FUSE_CAP_SPLICE_WRITE);
	fuse_unset_feature_flag(conn, FUSE_CAP_SPLICE_MOVE);
	fuse_unset_feature_flag(conn, FUSE_CAP_WRITEBACK_CACHE);
	if (!must_revalidate(ov))
		fuse_unset_feature_flag(conn, FUSE_CAP_AUTO_INVAL_DATA);
	conn->max_backing_stack_depth = backing_depth(ov);
	if (fuse_set_feature_flag(conn, FUSE_CAP_PASSTHROUGH)) {
		/* In a successor the kernel may have refused it already. */
		atomic_store(&ov->has_passthrough,
			     atomic_load(&ov->shared.header->data_path_cached) == 0);
	} else {
		atomic_store(&ov->shared.header->data_path_cached, 1);
	}
	conn->time_gran = 1;
	ov->threads->request_bytes = conn->max_write + REQUEST_HEAD_BYTES;
}

static const struct fuse_lowlevel_ops operations = {
	.init = on_init,
	.lookup = ops_lookup,
	.forget = ops_forget,
	.forget_multi = ops_forget_multi,
	.getattr = ops_getattr,
	.statx = ops_statx,
	.setattr = ops_setattr,
	.readlink = ops_readlink,
	.mknod = ops_mknod,
	.mkdir = ops_mkdir,
	.unlink = ops_unlink,
	.rmdir = ops_rmdir,
	.symlink = ops_symlink,
	.rename = ops_rename,
	.link = ops_link,
	.open = ops_open,
	.read = ops_read,
	.write = ops_write,
	.release = ops_release,
	.fsync = ops_fsync,
	.opendir = ops_opendir,
	.readdir = ops_readdir,
	.readdirplus = ops_readdirplus,
	.fsyncdir = ops_fsyncdir,
	.statfs = ops_statfs,
	.setxattr = ops_setxattr,
	.getxattr = ops_getxattr,
	.listxattr = ops_listxattr,
	.removexattr = ops_removexattr,
	.create = ops_create,
	.ioctl = ops_ioctl,
	.fallocate = ops_fallocate,
	.copy_file_range = ops_copy_file_range,
	.lseek = ops_lseek,
	.tmpfile = ops_tmpfile,
	/* No flush (nothing is buffered), no access (default_permissions), no locks (the kernel's own). */
};

int session_make(struct overlay *ov, int fd, struct fuse_session **ret_session)
{
	char *argv[] = { "fsgroupfs", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	char mountpoint[32];

	*ret_session = fuse_session_new(&args, &operations, sizeof(operations), ov);
	if (!*ret_session)
		return -ENOMEM;
	snprintf(mountpoint, sizeof(mountpoint), "/dev/fd/%d", fd);
	return fuse_session_mount(*ret_session, mountpoint) != 0 ? -EIO : 0;
}

/* Lets libfuse answer @request on a socket; its bytes go to @ret_reply. */
static ssize_t answer_on_socket(struct overlay *ov, int socket, const void *request, size_t len,
				void *ret_reply, size_t size)
{
	struct fuse_buf buf = { .mem = (void *)request, .size = len };
	ssize_t n;

	request_begin(request, len);
	fuse_session_process_buf(ov->session, &buf);
	n = recv(socket, ret_reply, size, MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

/* libfuse's parts for the rings learn what was agreed; what they answer is for nobody. */
static void tell_ring_sessions(struct overlay *ov, const void *request, size_t len)
{
	const struct server_threads *threads = ov->threads;
	struct fuse_buf buf = { .mem = (void *)request, .size = len };

	for (unsigned i = threads->device_count; i < threads->count; i++)
		fuse_session_process_buf(threads->readers[i].session, &buf);
}

/*
 * Has libfuse take INIT in, as bytes, and gives its answer completed. From then on the session speaks with
 * the kernel: the device takes the socket's place.
 */
static ssize_t take_init(struct overlay *ov, const void *request, size_t len,
			 unsigned char ret_reply[SHARED_INIT_MAX])
{
	AUTO_FD int ours = take_fd(&ov->threads->init_fds[0]);
	unsigned features = (session_has_rings(ov->threads) ? REQUEST_OVER_RING : 0) |
			    (ov->options->idmap ? REQUEST_IDMAP : 0);
	ssize_t n = answer_on_socket(ov, ours, request, len, ret_reply, SHARED_INIT_MAX);

	if (n < 0)
		return n;
	if (!request_patch_init_reply(request, len, features, ret_reply, (size_t)n))
		return -EPROTO;
	tell_ring_sessions(ov, request, len);
	if (dup3(ov->device_fd, ov->threads->init_fds[1], O_CLOEXEC) < 0)
		return -errno;
	return n;
}

int session_answer_init(struct overlay *ov)
{
	struct shared_header *h = ov->shared.header;
	AUTO_FREE unsigned char *request = malloc(INIT_READ_BYTES);
	ssize_t len, n;

	if (!request)
		return -ENOMEM;
	len = read(ov->device_fd, request, INIT_READ_BYTES);
	if (len < 0)
		return -errno;
	if (!request_is_init(request, (size_t)len) || len > SHARED_INIT_MAX)
		return -EPROTO;
	if (session_has_rings(ov->threads) && !request_can_ring(request, (size_t)len))
		return -EOPNOTSUPP;
	if (ov->options->idmap && !request_can_idmap(request, (size_t)len))
		return -ENOSYS;
	n = take_init(ov, request, (size_t)len, h->init_reply);
	if (n < 0)
		return (int)n;
	memcpy(h->init_request, request, (size_t)len);
	h->init_request_len = (uint32_t)len;
	h->init_reply_len = (uint32_t)n;
	if (session_has_rings(ov->threads))
		atomic_store(&h->failover, FAILOVER_NO_RING);
	else if (!request_can_resend(request, (size_t)len))
		atomic_store(&h->failover, FAILOVER_NO_RESEND);
	else if (!ov->tree.has_handles)
		atomic_store(&h->failover, FAILOVER_NO_HANDLE);
	else
		atomic_store(&h->failover, FAILOVER_READY);
	return write(ov->device_fd, h->init_reply, (size_t)n) == n ? 0 : -errno;
}

int session_replay_init(struct overlay *ov)
{
	const struct shared_header *h = ov->shared.header;
	unsigned char reply[SHARED_INIT_MAX];
	ssize_t n;

	if (h->init_request_len > SHARED_INIT_MAX)
		return -EPROTO;
	n = take_init(ov, h->init_request, h->init_request_len, reply);
	if (n < 0)
		return (int)n;
	return n == (ssize_t)h->init_reply_len && memcmp(reply, h->init_reply, (size_t)n) == 0 ?
		       0 :
		       -EPROTO;
}
