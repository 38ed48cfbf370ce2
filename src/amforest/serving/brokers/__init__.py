"""Consumers: a forest learns rows from a message broker, and writes predictions back.

The modules, in the order in which they import each other:

- `messages`: messages, and what a broker does
- `row_learner`: rows of messages to predictions and to the model
- `consumer`: the loop that is the same for all brokers: fetch, predict and learn, publish, save,
  acknowledge
- `redis_broker`, `mqtt_broker`: Redis Streams (needs the extra `redis`) and MQTT (`mqtt`)
"""
