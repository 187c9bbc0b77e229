/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_DOCTOR_H
#define MOUNTD_CTL_DOCTOR_H

/*
 * ctl_doctor: "fsgroupctl doctor": everything on this machine that fsgroupfs needs, looked at: a finding each, with a
 * verdict and how it is mended. Starts no daemon and changes nothing; runs for anybody. One thread.
 */

#include "mountd/ctl/call.h"

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

struct doctor {
	const struct ctl *ctl;
	json_t *findings; /* {"check", "verdict", "message", "mend"} */
	bool is_root;
};

/* doctor_find: @mend: NULL where nothing is to be done. */
void doctor_find(struct doctor *d, const char *check, enum verdict verdict, const char *mend,
		 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The parts: kernel and limits; programs; files, daemon and volumes of the root directory. */
void doctor_kernel(struct doctor *d);
void doctor_limits(struct doctor *d);
void doctor_programs(struct doctor *d);
void doctor_files(struct doctor *d);
void doctor_daemon(struct doctor *d);

/* doctor_judge_release: the findings that follow from a release as uname(2) has it, "6.1.0-13-amd64"; for tests too. */
void doctor_judge_release(struct doctor *d, const char *release);

/* The whole command; returns the exit status. */
int ctl_doctor(const struct ctl *ctl, int argc, char **argv);

#endif
