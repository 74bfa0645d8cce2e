import type { CommandParts } from '../command-input.ts';
import type { GatewayFlags } from '../flags.ts';

/** `trunkline access`, `sessions`, `tasks`, `plan` and `reload`. */
export function addOperatingCommands({ command, input, done }: CommandParts): void {
  const access = command('access', 'list what each caller may use')
    .enablePositionalOptions()
    .action(async (flags: GatewayFlags) => {
      const commands = await import('./access.ts');
      done(await commands.access(input(flags)));
    });
  command('why', 'say what would become of a call, and which policy decides', access)
    .argument('<caller>', 'name of an agent; anonymous or operator')
    .argument('<server>', 'name of the server')
    .argument('<tool>', "the tool's own name")
    .action(async (caller: string, server: string, tool: string, flags: GatewayFlags) => {
      const { why } = await import('./access.ts');
      done(await why({ ...input(flags), caller, server, tool }));
    });
  const sessions = command('sessions', 'list the open sessions of clients')
    .enablePositionalOptions()
    .action(async (flags: GatewayFlags) => {
      const commands = await import('./sessions.ts');
      done(await commands.sessions(input(flags)));
    });
  command('end', 'end a session, and its calls', sessions)
    .argument('<label>', 'as the list has it')
    .action(async (label: string, flags: GatewayFlags) => {
      const { end } = await import('./sessions.ts');
      done(await end({ ...input(flags), label }));
    });
  const tasks = command('tasks', 'list the tasks that calls of clients have begun')
    .enablePositionalOptions()
    .action(async (flags: GatewayFlags) => {
      const commands = await import('./tasks.ts');
      done(await commands.tasks(input(flags)));
    });
  command('cancel', 'cancel a task at its server', tasks)
    .argument('<key>', 'as the list has it')
    .action(async (key: string, flags: GatewayFlags) => {
      const { cancel } = await import('./tasks.ts');
      done(await cancel({ ...input(flags), key }));
    });
  command('plan', 'show what reading the configuration now would change').action(async (flags: GatewayFlags) => {
    const { plan } = await import('./configuration.ts');
    done(await plan(input(flags)));
  });
  command('reload', 'read the configuration now').action(async (flags: GatewayFlags) => {
    const { reload } = await import('./configuration.ts');
    done(await reload(input(flags)));
  });
}
