import { type BusBench, busContract, SECRET } from '../../../test/contracts/bus.contract.ts';
import { CuttableHub, type CuttableWire } from '../../../test/support/cuttable-wire.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { systemRandom } from '../../model/random.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { Bus } from '../bus.ts';
import { SignedBus } from '../signed-bus.ts';
import { KeyRing } from '../trust/key-ring.ts';

busContract({
  name: 'memory',
  async start(): Promise<BusBench> {
    const hub = new CuttableHub();
    const clock = new FakeClock();
    const outsider = hub.open();
    const wires = new Map<Bus, CuttableWire>();
    return {
      clock,
      async join(secrets = [SECRET]) {
        const wire = hub.open();
        const bus = new SignedBus({
          wire,
          clock,
          keys: new KeyRing(secrets),
          random: systemRandom,
          logger: Logger.silent(),
        });
        wires.set(bus, wire);
        return bus;
      },
      cut: async (bus) => wires.get(bus)!.cut(),
      restore: async (bus) => wires.get(bus)!.restore(),
      intrude: (subject, payload) => outsider.publish(subject, payload),
      async overhear(subject) {
        const heard: { subject: string; payload: Buffer }[] = [];
        outsider.subscribe(subject, (message) => {
          heard.push({ subject: message.subject, payload: Buffer.from(message.payload) });
        });
        return heard;
      },
      settle: settled,
      async dispose() {
        for (const bus of wires.keys()) await bus.close();
        await outsider.close();
      },
    };
  },
});
