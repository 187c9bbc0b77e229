// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/program.h"

#include <elf.h>
#include <string.h>

#ifdef __x86_64__

/* getresuid, getresgid, write(1, ids, 24), exit(0); position independent. Never run in place. */
__asm__(".pushsection .rodata\n"
	"differential_program_begin:\n"
	"sub $64, %rsp\n"
	"mov $118, %eax\n lea (%rsp), %rdi\n lea 4(%rsp), %rsi\n lea 8(%rsp), %rdx\n syscall\n"
	"mov $120, %eax\n lea 12(%rsp), %rdi\n lea 16(%rsp), %rsi\n lea 20(%rsp), %rdx\n syscall\n"
	"mov $1, %eax\n mov $1, %edi\n mov %rsp, %rsi\n mov $24, %edx\n syscall\n"
	"mov $60, %eax\n xor %edi, %edi\n syscall\n"
	"differential_program_end:\n"
	".popsection\n");
extern const unsigned char code_begin[] __asm__("differential_program_begin");
extern const unsigned char code_end[] __asm__("differential_program_end");

size_t program_image(unsigned char ret[PROGRAM_BYTES_MAX])
{
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr segment;
	} elf = { 0 };
	const Elf64_Addr base = 0x400000;
	size_t code = (size_t)(code_end - code_begin), size = sizeof(elf) + code;

	if (size > PROGRAM_BYTES_MAX)
		return 0;
	memcpy(elf.head.e_ident, ELFMAG, SELFMAG);
	elf.head.e_ident[EI_CLASS] = ELFCLASS64;
	elf.head.e_ident[EI_DATA] = ELFDATA2LSB;
	elf.head.e_ident[EI_VERSION] = EV_CURRENT;
	elf.head.e_type = ET_EXEC;
	elf.head.e_machine = EM_X86_64;
	elf.head.e_version = EV_CURRENT;
	elf.head.e_entry = base + sizeof(elf);
	elf.head.e_phoff = sizeof(elf.head);
	elf.head.e_ehsize = sizeof(elf.head);
	elf.head.e_phentsize = sizeof(elf.segment);
	elf.head.e_phnum = 1;
	elf.segment.p_type = PT_LOAD;
	elf.segment.p_flags = PF_R | PF_X;
	elf.segment.p_vaddr = base;
	elf.segment.p_paddr = base;
	elf.segment.p_filesz = size;
	elf.segment.p_memsz = size;
	elf.segment.p_align = 0x1000;
	memcpy(ret, &elf, sizeof(elf));
	memcpy(ret + sizeof(elf), code_begin, code);
	return size;
}

#else

size_t program_image(unsigned char ret[PROGRAM_BYTES_MAX])
{
	(void)ret;
	return 0;
}

#endif
