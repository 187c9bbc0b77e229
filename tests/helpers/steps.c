// SPDX-License-Identifier: Apache-2.0
/*
 * steps: the names of the steps at which the volume manager can be made to crash (mountd/steps.h), one a line.
 */
#include <stdio.h>

#include "mountd/steps.h"

int main(void)
{
	for (int i = 0; i < STEP_COUNT; i++)
		puts(step_name((enum step)i));
	return 0;
}
