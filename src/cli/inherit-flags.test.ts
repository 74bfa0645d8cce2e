import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { Command, Option } from 'commander';
import { EXIT } from './exit-code.ts';
import { dropEmptyVariables, inheritFlags } from './inherit-flags.ts';

const VARIABLES = ['TRUNKLINE_TEST_NAME', 'TRUNKLINE_TEST_SWITCH'] as const;
afterEach(() => {
  for (const name of VARIABLES) delete process.env[name];
});

/** The flags of `trunkline list show`; each of the three commands has both options. */
async function flagsOf(...argv: string[]): Promise<object> {
  let found: object = {};
  const [name, on] = VARIABLES;
  const program = new Command('trunkline').enablePositionalOptions();
  const list = program.command('list').enablePositionalOptions();
  const show = list.command('show').action((flags: object) => {
    found = { ...flags };
  });
  for (const command of [program, list, show]) {
    command.addOption(new Option('--name <name>').env(name)).addOption(new Option('--switch').env(on));
  }
  program.addOption(new Option('--only-before'));
  program.hook('preAction', (_, command) => inheritFlags(command));
  dropEmptyVariables(program);
  await program.parseAsync(argv, { from: 'user' });
  return found;
}

test('the flag nearest to the end of the command line is taken, then the environment', async () => {
  process.env['TRUNKLINE_TEST_NAME'] = 'e';
  assert.deepEqual(await flagsOf('list', 'show'), { name: 'e' });
  assert.deepEqual(await flagsOf('--name', 'a', '--only-before', 'list', 'show'), { name: 'a', onlyBefore: true });
  assert.deepEqual(await flagsOf('--name', 'a', 'list', '--name', 'b', 'show'), { name: 'b' });
  assert.deepEqual(await flagsOf('--name', 'a', 'list', '--name', 'b', 'show', '--name', 'c'), { name: 'c' });
});

test('an empty variable counts as unset, and an option without a value is wrong usage', async () => {
  process.env['TRUNKLINE_TEST_NAME'] = '';
  assert.deepEqual(await flagsOf('list', 'show'), {});
  assert.deepEqual(await flagsOf('list', 'show', '--name', 'a'), { name: 'a' });
  for (const words of [
    ['--name', '', 'list', 'show'],
    ['list', 'show', '--name='],
  ]) {
    const message = '--name has no value; give it one, or leave it out';
    await assert.rejects(flagsOf(...words), { exitCode: EXIT.usage, message });
  }
});

test('a variable turns an option on or off by its value; an empty one does neither', async () => {
  for (const [text, value] of [
    ['1', true],
    ['true', true],
    ['YES', true],
    ['0', false],
    ['False', false],
    ['no', false],
    ['', undefined],
  ] as const) {
    process.env['TRUNKLINE_TEST_SWITCH'] = text;
    assert.equal(((await flagsOf('list', 'show')) as { switch?: boolean }).switch, value, text);
    for (const words of [
      ['--switch', 'list', 'show'],
      ['list', 'show', '--switch'],
    ]) {
      assert.deepEqual(await flagsOf(...words), { switch: true }, text);
    }
  }
  process.env['TRUNKLINE_TEST_SWITCH'] = 'maybe';
  await assert.rejects(flagsOf('list', 'show'), {
    exitCode: EXIT.usage,
    message: /TRUNKLINE_TEST_SWITCH=maybe; set it to 1, true or yes, to 0, false or no, or not at all/,
  });
});
