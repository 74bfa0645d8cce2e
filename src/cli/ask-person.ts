import type { InputPrompt } from '../config/document/inputs.ts';

/** Asks on the terminal; what is typed for a password is not shown. */
export const askPerson: InputPrompt = async ({ id, description, password }) => {
  const { createInterface } = await import('node:readline/promises');
  const { Writable } = await import('node:stream');
  let hidden = false;
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (!hidden) process.stderr.write(chunk);
      done();
    },
  });
  const terminal = createInterface({ input: process.stdin, output, terminal: true });
  try {
    const answer = terminal.question(`${description} (${id}): `);
    hidden = password;
    return await answer;
  } finally {
    terminal.close();
    if (password) process.stderr.write('\n');
  }
};
