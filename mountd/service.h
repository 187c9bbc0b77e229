/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_SERVICE_H
#define MOUNTD_SERVICE_H

/*
 * service: what a service manager gives to a daemon and wants to hear from it (sd_listen_fds(3), sd_notify(3),
 * sd_watchdog_enabled(3)): a listening socket, "ready", "stopping", a status line, signs of life.
 *
 * Three environment variables and one datagram; that a library for it would be the largest thing that the
 * daemon links is why there is none. Where there is no service manager every call does nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fs/base/cleanup.h"

struct service;

/*
 * service_open: what the environment says, which is taken out of it: no child is to speak for us.
 * Before there are threads, and before inherited descriptors are closed.
 * *ret_error: 256 bytes, one line on failure.
 * Returns 0, -ENOMEM, or -EINVAL: more or other than one listening stream socket was passed.
 */
int service_open(struct service **ret_service, char *ret_error);
void service_free(struct service *service);
DEFINE_AUTO(service)

/* service_socket: the listening socket that was passed, still the service's; -1: none. */
int service_socket(const struct service *service);

/* service_take_socket: the same, the caller's from now on. */
int service_take_socket(struct service *service);

/* service_is_managed: whether somebody listens to service_notify(). */
bool service_is_managed(const struct service *service);

/* service_watchdog_ms: how often a sign of life is due at least; 0: none is wanted. */
uint64_t service_watchdog_ms(const struct service *service);

/*
 * service_pass_on: the environment as the service manager would have made it for a program that takes our place, with
 * the listening socket as its first passed descriptor. 0 or -ENOMEM.
 */
int service_pass_on(const struct service *service);

/* service_notify: assignments, a line each ("READY=1\nSTATUS=..."). Waits at most a second; errors are ignored. */
void service_notify(const struct service *service, const char *assignments);

#endif
